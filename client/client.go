package client

import (
	"context"
	"errors"
	"slices"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
)

// Client reads, watches and writes objects of every kind. Objects that it returns are the caller's to read, never to
// change: copy first.
type Client interface {
	// Get returns the object; fault.NotFound when there is none.
	Get(ctx context.Context, ref api.Ref, o GetOptions) (api.Object, error)
	// List returns the objects of a kind at one revision, ordered by namespace and name.
	List(ctx context.Context, k *api.Kind, o ListOptions) (*List, error)
	// Watch yields the changes of a kind, in order, each exactly once.
	Watch(ctx context.Context, k *api.Kind, o WatchOptions) (Watcher, error)
	// Create adds an object; fault.AlreadyExists when the name is taken.
	Create(ctx context.Context, obj api.Object, o WriteOptions) (api.Object, error)
	// Update replaces an object. With metadata.resourceVersion set it is the precondition; without, the server does the
	// read-modify-write. What the kind's /status holds changes only with Subresource "status", and then nothing else does.
	// An update that changes nothing writes nothing and returns what stands.
	Update(ctx context.Context, obj api.Object, o WriteOptions) (api.Object, error)
	// Delete removes an object (or marks it, while finalizers hold it). Deleting what is not there is fault.NotFound.
	Delete(ctx context.Context, ref api.Ref, o DeleteOptions) error
	// Transact does all of the writes, or none, at consecutive revisions in one log entry. The results stand in the order of
	// the items; one that changed nothing returns what stands.
	Transact(ctx context.Context, tx Transaction) ([]TxResult, error)
}

// GetOptions choose how fresh a read must be.
type GetOptions struct {
	// Stale reads what the answering member has; the default is linearizable.
	Stale bool
	// ResourceVersion, when given, is one that the answer must not be older than: fault.Ahead where there is none such yet.
	ResourceVersion string
}

// ListOptions select and page. Zero value: everything, linearizable.
type ListOptions struct {
	Namespace     string // "" = all
	LabelSelector string // Kubernetes' string form
	FieldSelector string // metadata.name=X, metadata.namespace=X, spec.device=X (Assignment), spec.workload=X (Assignment, Rollout, WorkloadRevision)
	Limit         int
	Continue      string
	// ResourceVersion "0" reads what the answering member has; any other is one that the list must not be older than.
	ResourceVersion string
	// Exact reads the list at ResourceVersion itself; fault.Expired when that is no longer kept.
	Exact bool
}

// List is one page of objects.
type List struct {
	Items           []api.Object
	ResourceVersion string // watch from here
	Continue        string
	Remaining       int
}

// WatchOptions select like ListOptions. ResourceVersion "" starts with the present objects as Added events followed by a
// Bookmark; a number starts after that revision.
type WatchOptions struct {
	Namespace       string
	LabelSelector   string
	FieldSelector   string
	ResourceVersion string
	Bookmarks       bool
}

// EventType is Kubernetes' type of a watch event.
type EventType string

// The types of watch events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is one change. Of a Deleted object Object is the last state, with the deletion's resourceVersion; of a Bookmark it is
// an empty object of the kind with only a resourceVersion.
type Event struct {
	Type   EventType
	Object api.Object
}

// Watcher yields events until it ends. Next blocks; after an error the watcher is dead. fault.Expired (410) means: list
// again, then watch from the list's revision. Other errors: resume from the last revision seen.
type Watcher interface {
	Next(ctx context.Context) (Event, error)
	Close()
}

// WriteOptions qualify a create or update.
type WriteOptions struct {
	Subresource  string // "" or "status"
	FieldManager string // "" = the actor's name
	DryRun       bool
	// Cause is the newest resourceVersion of what made the caller act; it goes to the journal of causes. Empty for people.
	Cause string
}

// DeleteOptions are preconditions on a deletion.
type DeleteOptions struct {
	UID             string // "" = any
	ResourceVersion string // "" = any
	Propagation     string // Background (default), Foreground, Orphan
	DryRun          bool
	Cause           string
}

// Verb is what a transaction does to one object.
type Verb string

// The verbs of a transaction.
const (
	TxApply  Verb = "apply" // server-side apply: the fields given become the manager's, what it no longer gives is removed
	TxCreate Verb = "create"
	TxUpdate Verb = "update" // replaces; metadata.resourceVersion, when set, is the precondition
	TxStatus Verb = "status" // replaces only the status
	TxDelete Verb = "delete" // metadata.uid and metadata.resourceVersion, when set, are preconditions
)

// Transaction is a set of writes, at most 8 MiB in all.
type Transaction struct {
	Items        []TxItem
	FieldManager string
	Force        bool // apply takes fields over from other managers
	DryRun       bool
	Cause        string
	// If must hold when the items are done, or nothing is: a fault.Conflict for which PlanMoved answers true. A dry run answers it too.
	If []Precondition
}

// Precondition is what a transaction rests on besides its items: how an object stands, or that nothing else belongs to a selection.
type Precondition struct {
	Ref api.Ref // with a Selection only Kind and, where the kind has them, Namespace
	// ResourceVersion at which the object stands; "" = there is no such object.
	ResourceVersion string
	Selection       *Selection
}

// Selection names everything that it selects. What it names and does not select is no conflict.
type Selection struct {
	LabelSelector string
	AppliedBy     string // the field manager; it has applied the object and still owns a field of it. "" = any object
	Names         []string
}

// ReasonPlanMoved is the reason of a conflict's cause where a transaction's precondition does not hold.
const ReasonPlanMoved = "PlanMoved"

// ReasonQuota is the reason of a refusal's cause where a ResourceQuota is exceeded, or could not be counted.
const ReasonQuota = "QuotaExceeded"

// OverQuota reports whether an error says that a write would exceed a ResourceQuota.
func OverQuota(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Class == fault.Forbidden &&
		slices.ContainsFunc(f.Details.Causes, func(c fault.Cause) bool { return c.Reason == ReasonQuota })
}

// PlanMoved reports whether an error says that what a transaction rests on (Transaction.If) has changed: plan again.
func PlanMoved(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Class == fault.Conflict &&
		slices.ContainsFunc(f.Details.Causes, func(c fault.Cause) bool { return c.Reason == ReasonPlanMoved })
}

// MaxPreconditions bounds Transaction.If, and MaxItems Transaction.Items.
const (
	MaxPreconditions = 1 << 15
	MaxItems         = 1 << 15
)

// AppliedBy reports whether the manager has applied the object, and owns a field of it still.
func AppliedBy(obj api.Object, manager string) bool {
	return slices.ContainsFunc(obj.Meta().ManagedFields, func(m api.ManagedFieldsEntry) bool {
		return m.Operation == "Apply" && m.Subresource == "" && m.Manager == manager
	})
}

// TxItem is one write. For TxDelete only kind, namespace and name of Object matter, besides the preconditions.
type TxItem struct {
	Verb   Verb
	Object api.Object
}

// TxResult is what one item came to.
type TxResult struct {
	Object api.Object // as it stands after the transaction; the last state for a deletion
	// Action is created, configured, unchanged or deleted.
	Action string
}
