package api

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestQuantityIsKeptAsAnIntegerAndEchoedInCanonicalForm(t *testing.T) {
	for _, c := range []struct {
		in    string
		milli int64
		out   string
	}{
		{"0", 0, "0"}, {"0.0", 0, "0"}, {"1", 1000, "1"}, {"007", 7000, "7"}, {"250m", 250, "250m"}, {"1000m", 1000, "1"}, {"1500m", 1500, "1500m"},
		{"0.5", 500, "500m"}, {"1.10", 1100, "1100m"}, {"2k", 2e6, "2k"}, {"1000", 1e6, "1k"}, {"3M", 3e9, "3M"}, {"3G", 3e12, "3G"}, {"3T", 3e15, "3T"},
		{"64Mi", 64 << 20 * 1000, "64Mi"}, {"1024Ki", 1 << 20 * 1000, "1Mi"}, {"1.5Gi", 3 << 29 * 1000, "1536Mi"}, {"8Ti", 8 << 40 * 1000, "8Ti"},
		{"1.1Gi", 1181116007 * 1000, "1181116007"}, // rounded up to whole bytes
		{"0.0001Ki", 1000, "1"},
		{"9223372036854775807m", 9223372036854775807, "9223372036854775807m"},
	} {
		q, err := ParseQuantity(c.in)
		if err != nil || q.Milli() != c.milli || q.String() != c.out {
			t.Errorf("ParseQuantity(%q) = %d thousandths, %q, %v; want %d, %q", c.in, q.Milli(), q, err, c.milli, c.out)
		}
		if again, err := ParseQuantity(q.String()); err != nil || again != q {
			t.Errorf("canonical %q of %q reads back as %v, %v", q, c.in, again, err)
		}
	}
}

func TestQuantityOutsideTheGrammarIsRefusedWithAReason(t *testing.T) {
	for in, reason := range map[string]string{
		"": "empty", "-1": "sign", "+1": "sign", "1e3": "exponent", "1E3": "exponent", "12E": "suffix", "1 Gi": "suffix", "1gb": `did you mean "1G"`, "64MI": `did you mean "64Mi"`,
		"64mb": `did you mean "64M"`, "1Pi": "suffix", "1.": "digits", ".5": "digits", "1.2.3": "digits", "Mi": "digits", "0x10": "suffix", "1_000": "digits", "1u": "suffix",
		"0.0001": "thousandth", "1.5m": "thousandth", "9223372036854775808m": "too large", "9000Ti": "too large", "99999999999999999999": "too large",
		"0.00000000001Gi": "decimals", strings.Repeat("1", 40): "characters", "٣": "suffix",
	} {
		if q, err := ParseQuantity(in); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseQuantity(%q) = %v, %v; want an error that says %q", in, q, err, reason)
		}
	}
}

func TestThousandthsOfAByteAreRefusedWithWhatWasMeant(t *testing.T) {
	q, err := ParseQuantity("256m")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckResource(ResourceMemory, q); err == nil || !strings.Contains(err.Error(), `"256Mi"`) {
		t.Errorf("256m of memory: got %v, want a hint at 256Mi", err)
	}
	if err := CheckResource(ResourceCPU, q); err != nil {
		t.Errorf("256m of cpu: got %v, want no error", err)
	}
	if err := CheckResource("gpu", q); err == nil {
		t.Error("resource gpu: got no error")
	}
}

func TestQuantityArithmeticStaysInRange(t *testing.T) {
	big, small := MilliQuantity(1<<62), BytesQuantity(1<<20)
	if got := big.Add(big); got.Milli() != 1<<63-1 {
		t.Errorf("sum beyond the range = %d, want the largest", got.Milli())
	}
	if got := small.Sub(big); !got.IsZero() {
		t.Errorf("1Mi minus more = %v, want 0", got)
	}
	if got := small.Add(small).String(); got != "2Mi" {
		t.Errorf("1Mi + 1Mi = %s, want 2Mi", got)
	}
	if MilliQuantity(1).Bytes() != 1 || MilliQuantity(1000).Bytes() != 1 || MilliQuantity(-5).Milli() != 0 {
		t.Error("Bytes does not round up, or a negative amount is kept")
	}
	if a, b := small, MilliQuantity(1<<20*1000); a.Cmp(b) != 0 || !a.Equal(b) || a.Cmp(big) >= 0 || big.Cmp(a) <= 0 {
		t.Error("Cmp compares the way of writing instead of amounts")
	}
	if got := BytesQuantity(1<<63 - 1); got.Bytes() != (1<<63-1)/1000 {
		t.Errorf("bytes beyond the range = %d, want them clamped", got.Bytes())
	}
}

func TestQuantityInJSONIsAString(t *testing.T) {
	var list ResourceList
	if err := json.Unmarshal([]byte(`{"cpu":2,"memory":"1024Mi","storage":null}`), &list); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(list)
	if want := `{"cpu":"2","memory":"1Gi","storage":"0"}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, s := range []string{"250m", "1.5Gi", "9000Ti", "-1", "1e3", "0.0001", "007"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := ParseQuantity(s)
		if err != nil {
			return
		}
		again, err := ParseQuantity(q.String())
		if err != nil || again != q || q.Milli() < 0 {
			t.Fatalf("%q is %v (%d); its canonical form reads as %v, %v", s, q, q.Milli(), again, err)
		}
	})
}
