package wire

import (
	"bytes"
	"testing"
)

// FuzzParseToken: a join token that is taken is the text of itself, and an error shows nothing of the secret.
func FuzzParseToken(f *testing.F) {
	token, err := NewToken(bytes.NewReader(bytes.Repeat([]byte{7}, 64)), []byte("ca"), "batch-1")
	if err != nil {
		f.Fatal(err)
	}
	whole := string(token.Reveal())
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(whole + "=")
	f.Add("drover1...")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseToken(text)
		if err == nil && string(got.Reveal()) != text {
			t.Fatalf("got the text of another token than was read")
		}
	})
}
