package api

// ResourceList maps cpu, memory, storage to quantities.
type ResourceList map[string]Quantity

// Quantity is an amount as Kubernetes writes it ("250m", "64Mi"), kept as an integer: thousandths of a unit for cpu, bytes
// for everything else. Which of the two a value means is decided by the name of the resource, so Quantity keeps thousandths
// exactly and callers ask for what they need.
type Quantity struct {
	milli int64  // thousandths of the unit
	text  string // canonical form; "" for zero
}
