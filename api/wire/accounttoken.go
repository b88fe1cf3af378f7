package wire

import (
	"fmt"
	"strings"
)

// Lives of tokens that a device asks for, in seconds.
const (
	MinTokenLife = 600
	MaxTokenLife = 24 * 3600
)

const (
	maxAudience   = 253
	maxTokenFiles = 64
	maxFilePath   = 255
)

// TokenRequest asks for a token of a service account, for one file of one assignment that is bound to the device. The hub compares
// every field with the template that the assignment has now.
type TokenRequest struct {
	Session   uint64 `cbor:"1,keyasint"`
	UID       string `cbor:"2,keyasint"` // of the assignment
	Namespace string `cbor:"3,keyasint"`
	Name      string `cbor:"4,keyasint"` // of the assignment
	Account   string `cbor:"5,keyasint"`
	Volume    string `cbor:"6,keyasint"`
	Path      string `cbor:"7,keyasint"`
	Audience  string `cbor:"8,keyasint"`
	LifeSecs  uint32 `cbor:"9,keyasint"`
}

// Ref names what the answer's token is sealed as, so that an answer to another request does not open. The session is no part of it.
func (r *TokenRequest) Ref() (SecretRef, error) {
	m := *r
	m.Session = 0
	b, err := Encode(m)
	if err != nil {
		return SecretRef{}, err
	}
	return SecretRef{Name: r.Namespace + "/" + r.Name + "/token", ID: HashOf(b)}, nil
}

// TokenReply carries the token, sealed to the device's key as the request's Ref.
type TokenReply struct {
	Token    Sealed `cbor:"1,keyasint"`
	LifeSecs uint32 `cbor:"2,keyasint"` // how long it is good, from when the hub made it
}

// Validate checks a TokenRequest.
func (r *TokenRequest) Validate() error {
	if r.Session == 0 {
		return fmt.Errorf("session is 0, want 1 or more")
	}
	file := TokenFile{Path: r.Path, Audience: r.Audience, LifeSecs: r.LifeSecs}
	return first(checkUID(r.UID), checkName("namespace", r.Namespace), checkName("name", r.Name), checkName("service account", r.Account),
		checkName("volume", r.Volume), file.Validate())
}

// Validate checks a TokenReply.
func (r *TokenReply) Validate() error {
	if r.LifeSecs == 0 || r.LifeSecs > MaxTokenLife {
		return fmt.Errorf("life of %d s, want 1 to %d", r.LifeSecs, MaxTokenLife)
	}
	return r.Token.Validate()
}

// Validate checks a TokenFile.
func (f *TokenFile) Validate() error {
	if f.Audience == "" {
		return fmt.Errorf("token file %q without an audience", clip(f.Path))
	}
	if f.LifeSecs < MinTokenLife || f.LifeSecs > MaxTokenLife {
		return fmt.Errorf("token file %q with a life of %d s, want %d to %d", clip(f.Path), f.LifeSecs, MinTokenLife, MaxTokenLife)
	}
	return first(checkText("audience", f.Audience, maxAudience), checkFilePath(f.Path))
}

// checkFilePath wants a clean relative path whose parts are names: it is joined to a directory of the device.
func checkFilePath(p string) error {
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || strings.HasPrefix(part, "..") || strings.ContainsRune(part, 0) {
			return fmt.Errorf("path %q of a token file has a part %q", clip(p), clip(part))
		}
	}
	return checkText("path of a token file", p, maxFilePath)
}

// checkTokens judges the token files of an assignment.
func (a *Assignment) checkTokens() error {
	files := 0
	for _, v := range a.Volumes {
		files += len(v.Tokens)
	}
	if files == 0 {
		return checkText("service account", a.Account, maxName)
	}
	return first(checkName("service account", a.Account), checkCount("token files", files, maxTokenFiles))
}

func (v *Volume) checkTokens() error {
	if len(v.Tokens) == 0 {
		return nil
	}
	if v.HostPath != "" || v.FileMode > 0o777 {
		return fmt.Errorf("volume %q with token files has a host path or mode %o", clip(v.Name), v.FileMode)
	}
	return first(each(v.Tokens, (*TokenFile).Validate), distinct("token file", v.Tokens, func(f *TokenFile) string { return f.Path }))
}
