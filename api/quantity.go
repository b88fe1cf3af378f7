package api

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Names of resources.
const (
	ResourceCPU     = "cpu"
	ResourceMemory  = "memory"
	ResourceStorage = "storage"
)

// ResourceList maps cpu, memory, storage to quantities.
type ResourceList map[string]Quantity

// Quantity is an amount as Kubernetes writes it ("250m", "64Mi"), from 0 to about 9 PB, kept as an integer of thousandths: callers
// ask for thousandths (cpu) or whole units (bytes). It is a value: copies share nothing, == compares amount and way of writing;
// use [Quantity.Cmp] for the amount alone.
type Quantity struct {
	milli  int64 // thousandths of the unit, never negative
	binary bool  // printed with Ki, Mi, ...; only when divisible by 1024
}

const maxQuantityText = 32

// MilliQuantity is n thousandths; below 0 is 0.
func MilliQuantity(n int64) Quantity { return Quantity{milli: max(n, 0)} }

// BytesQuantity is n whole units, printed with binary suffixes; it is clamped to what a Quantity holds.
func BytesQuantity(n int64) Quantity {
	return quantityOf(min(max(n, 0), math.MaxInt64/1000)*1000, true)
}

func quantityOf(milli int64, binary bool) Quantity {
	return Quantity{milli: milli, binary: binary && milli != 0 && milli%(1024*1000) == 0}
}

type suffix struct {
	text   string
	factor uint64 // thousandths
	binary bool
}

// suffixes in the order in which String prefers them within a family: largest first.
func suffixes() []suffix {
	return []suffix{
		{"Ti", 1000 << 40, true}, {"Gi", 1000 << 30, true}, {"Mi", 1000 << 20, true}, {"Ki", 1000 << 10, true},
		{"T", 1e15, false}, {"G", 1e12, false}, {"M", 1e9, false}, {"k", 1e6, false}, {"m", 1, false},
	}
}

// ParseQuantity reads digits with optional decimals and an optional suffix: m, k, M, G, T, Ki, Mi, Gi, Ti. With a binary suffix a
// fraction of a unit is rounded up ("1.1Gi"); otherwise what is finer than a thousandth is refused. Signs, exponents and
// overflow are refused.
func ParseQuantity(s string) (Quantity, error) {
	if s == "" {
		return Quantity{}, fmt.Errorf("empty quantity: write a number with a suffix, as \"250m\" or \"64Mi\"")
	}
	if len(s) > maxQuantityText {
		return Quantity{}, fmt.Errorf("quantity of %d characters; the limit is %d", len(s), maxQuantityText)
	}
	number, sfx, err := splitQuantity(s)
	if err != nil {
		return Quantity{}, err
	}
	whole, frac, dotted := strings.Cut(number, ".")
	if !allDigits(whole) || (dotted && !allDigits(frac)) {
		return Quantity{}, fmt.Errorf("%q is not a quantity: want digits with an optional decimal part and one of the suffixes m k M G T Ki Mi Gi Ti, as \"250m\" or \"64Mi\"", s)
	}
	milli, err := scaleQuantity(s, whole, frac, sfx)
	if err != nil {
		return Quantity{}, err
	}
	return quantityOf(milli, sfx.binary), nil
}

// splitQuantity separates the number from its suffix and explains the common mistakes.
func splitQuantity(s string) (string, suffix, error) {
	if strings.ContainsAny(s[:1], "+-") {
		return "", suffix{}, fmt.Errorf("%q has a sign: quantities are never negative and need no \"+\"", s)
	}
	i := strings.LastIndexAny(s, "0123456789.") + 1
	if strings.ContainsAny(s[:i], "eE") {
		return "", suffix{}, fmt.Errorf("%q has an exponent: write the number out, or use a suffix as \"M\" or \"Mi\"", s)
	}
	number, text := s[:i], s[i:]
	if text == "" {
		return number, suffix{"", 1000, false}, nil
	}
	for _, sfx := range suffixes() {
		if sfx.text == text {
			return number, sfx, nil
		}
	}
	for _, sfx := range suffixes() {
		if sfx.text != "m" && (strings.EqualFold(sfx.text, text) || strings.EqualFold(sfx.text+"b", text)) {
			return "", suffix{}, fmt.Errorf("%q has the unknown suffix %q; did you mean %q?", s, text, number+sfx.text)
		}
	}
	return "", suffix{}, fmt.Errorf("%q has the unknown suffix %q: want one of m k M G T Ki Mi Gi Ti", s, text)
}

// scaleQuantity computes whole.frac times the suffix, in thousandths, with 128 bits between.
func scaleQuantity(s, whole, frac string, sfx suffix) (int64, error) {
	overflow := fmt.Errorf("%q is too large: the largest quantity is about 9 petabytes", s)
	if frac = strings.TrimRight(frac, "0"); len(frac) > 9 {
		return 0, fmt.Errorf("%q has more than 9 decimals", s)
	}
	n, err := strconv.ParseUint(whole+frac, 10, 64)
	if err != nil {
		return 0, overflow
	}
	div := uint64(1)
	for range frac {
		div *= 10
	}
	hi, lo := bits.Mul64(n, sfx.factor)
	if hi >= div {
		return 0, overflow
	}
	q, rest := bits.Div64(hi, lo, div)
	if sfx.binary && (rest != 0 || q%1000 != 0) {
		q, rest = q-q%1000+1000, 0
	}
	if rest != 0 {
		return 0, fmt.Errorf("%q is finer than a thousandth", s)
	}
	if q > math.MaxInt64 {
		return 0, overflow
	}
	return int64(q), nil
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Milli is the amount in thousandths: millicores of a cpu quantity.
func (q Quantity) Milli() int64 { return q.milli }

// Bytes is the amount in whole units, rounded up.
func (q Quantity) Bytes() int64 {
	if q.milli%1000 != 0 {
		return q.milli/1000 + 1
	}
	return q.milli / 1000
}

// IsZero reports an amount of 0.
func (q Quantity) IsZero() bool { return q.milli == 0 }

// Cmp compares amounts: -1, 0 or 1.
func (q Quantity) Cmp(o Quantity) int {
	switch {
	case q.milli < o.milli:
		return -1
	case q.milli > o.milli:
		return 1
	}
	return 0
}

// Equal reports the same amount, however written.
func (q Quantity) Equal(o Quantity) bool { return q.milli == o.milli }

// Add is the sum, at most the largest quantity.
func (q Quantity) Add(o Quantity) Quantity {
	if q.milli > math.MaxInt64-o.milli {
		return Quantity{milli: math.MaxInt64}
	}
	return quantityOf(q.milli+o.milli, q.binary || o.binary)
}

// Sub is the difference, at least 0.
func (q Quantity) Sub(o Quantity) Quantity {
	return quantityOf(max(q.milli-o.milli, 0), q.binary || o.binary)
}

// String is the canonical form: the largest suffix of its family that leaves a whole number.
func (q Quantity) String() string {
	if q.milli == 0 {
		return "0"
	}
	for _, sfx := range suffixes() {
		if f := int64(sfx.factor); sfx.binary == q.binary && q.milli%f == 0 && sfx.text != "m" {
			return strconv.FormatInt(q.milli/f, 10) + sfx.text
		}
	}
	if q.milli%1000 == 0 {
		return strconv.FormatInt(q.milli/1000, 10)
	}
	return strconv.FormatInt(q.milli, 10) + "m"
}

// MarshalJSON writes the canonical form as a string.
func (q Quantity) MarshalJSON() ([]byte, error) { return []byte(`"` + q.String() + `"`), nil }

// UnmarshalJSON reads a string or a plain number; null is 0.
func (q *Quantity) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" {
		*q = Quantity{}
		return nil
	}
	if text != "" && text[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	}
	p, err := ParseQuantity(text)
	if err != nil {
		return err
	}
	*q = p
	return nil
}

// CheckResource says what is wrong with an amount of a resource: an unknown name, or a fraction of a byte.
func CheckResource(name string, q Quantity) error {
	switch name {
	case ResourceCPU:
		return nil
	case ResourceMemory, ResourceStorage:
		if q.milli%1000 != 0 {
			n := strconv.FormatInt(q.milli, 10)
			return fmt.Errorf("%s is %s thousandths of a byte; did you mean %q or %q?", q, n, n+"Mi", n+"M")
		}
		return nil
	}
	return fmt.Errorf("unknown resource %q: want cpu, memory or storage", name)
}
