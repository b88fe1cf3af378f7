package clienttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// Env is a fresh, empty hub that has namespace "default".
type Env struct {
	Client client.Client // of a person with all rights
	Other  client.Client // of another person, with another name; for field ownership
	Hub    client.Client // of a part of the hub, which may write status and what controllers write
	// Compact drops all history but the newest state. Nil: tests of compaction are left out.
	Compact func(ctx context.Context) error
}

// patience bounds every wait, so that a lost event fails a test instead of hanging it.
const patience = 20 * time.Second

// Run runs the suite. open is called once for each test and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Env) {
	tests := []struct {
		name string
		run  func(h *harness)
	}{
		{"CreatedObjectHasIdentity", createdObjectHasIdentity},
		{"CreatingATakenNameIsRefused", creatingATakenNameIsRefused},
		{"GeneratedNamesDiffer", generatedNamesDiffer},
		{"MissingObjectIsNotFound", missingObjectIsNotFound},
		{"NamespacesMustExist", namespacesMustExist},
		{"InvalidObjectNamesTheField", invalidObjectNamesTheField},
		{"OldResourceVersionConflicts", oldResourceVersionConflicts},
		{"UpdateWithoutResourceVersionIsMadeOnTheServer", updateWithoutResourceVersion},
		{"ConcurrentUpdatesWithoutResourceVersionAllSucceed", concurrentUpdates},
		{"ObjectsGivenMayBeShared", objectsGivenMayBeShared},
		{"WriteThatChangesNothingWritesNothing", noopWritesNothing},
		{"SpecAndStatusHaveOneWriterEach", specAndStatusAreApart},
		{"GenerationCountsSpecChanges", generationCountsSpecChanges},
		{"ListPagesStandAtOneRevision", listPagesStandAtOneRevision},
		{"ForgedContinueTokenIsRefused", forgedContinueTokenIsRefused},
		{"SelectorsSelect", selectorsSelect},
		{"UnknownSelectorIsRefused", unknownSelectorIsRefused},
		{"WatchYieldsEachChangeOnceInOrder", watchYieldsEachChangeOnce},
		{"WatchResumesWithoutGapOrRepeat", watchResumes},
		{"WatchFromNowBeginsWithWhatIsThere", watchFromNow},
		{"WatchTellsWhatEntersAndLeavesTheSelector", watchTellsTransitions},
		{"WatchOfTheFutureIsRefused", watchOfTheFuture},
		{"CompactedRevisionIsExpired", compactedRevisionIsExpired},
		{"DeleteHoldsItsPreconditions", deletePreconditions},
		{"FinalizersHoldADeletion", finalizersHold},
		{"DeletingANamespaceKeepsNewObjectsOut", namespaceDeletion},
		{"TransactionIsAllOrNothing", transactionAllOrNothing},
		{"TransactionTakesPartsInOrder", transactionInOrder},
		{"TransactionIsSeenWhole", transactionIsSeenWhole},
		{"TransactionHoldsItsPreconditions", transactionHoldsPreconditions},
		{"TransactionKeepsNewcomersOutOfASelection", transactionKeepsNewcomersOut},
		{"TransactionOfTooManyItemsIsTooLarge", transactionTooLarge},
		{"DryRunWritesNothing", dryRunWritesNothing},
		{"ApplyOwnsWhatItGives", applyOwnership},
		{"ApplyRemovesWhatItNoLongerGives", applyRemoves},
		{"ApplyOfTheSameChangesNothing", applyTwice},
		{"TooLargeObjectNamesItsLimit", tooLarge},
		{"SecretsComeBackAsTheyWent", secretsComeBack},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			tt.run(&harness{T: t, Env: open(t), ctx: ctx})
		})
	}
}

// harness has what the tests say often.
type harness struct {
	*testing.T
	Env
	ctx context.Context
}

func configMap(name string, data map[string]string) *api.ConfigMap {
	return &api.ConfigMap{
		TypeMeta: api.TypeMeta{APIVersion: api.CoreV1, Kind: "ConfigMap"},
		Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS},
		Data:     data,
	}
}

func workload(name, image string) *api.Workload {
	return &api.Workload{
		TypeMeta: api.TypeMeta{APIVersion: api.FleetV1, Kind: "Workload"},
		Metadata: api.ObjectMeta{Name: name, Namespace: api.DefaultNS},
		Spec: api.WorkloadSpec{
			Placement: api.Placement{Everywhere: true, All: true},
			Template:  api.Template{Spec: api.PodSpec{Containers: []api.Container{{Name: "main", Image: image}}}},
		},
	}
}

// image is a reference by digest, which no registry has to be asked about.
func image(n string) string {
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	return "127.0.0.1:1/test@sha256:" + n + zeros[len(n):]
}

func ref(obj api.Object) api.Ref {
	r, _ := api.RefOf(obj)
	return r
}

func (h *harness) create(obj api.Object) api.Object {
	h.Helper()
	out, err := h.Client.Create(h.ctx, obj, client.WriteOptions{})
	if err != nil {
		h.Fatalf("create %s: %v", ref(obj), err)
	}
	return out
}

func (h *harness) update(obj api.Object) api.Object {
	h.Helper()
	out, err := h.Client.Update(h.ctx, obj, client.WriteOptions{})
	if err != nil {
		h.Fatalf("update %s: %v", ref(obj), err)
	}
	return out
}

func (h *harness) get(r api.Ref) api.Object {
	h.Helper()
	out, err := h.Client.Get(h.ctx, r, client.GetOptions{})
	if err != nil {
		h.Fatalf("get %s: %v", r, err)
	}
	return out
}

func (h *harness) list(k *api.Kind, o client.ListOptions) *client.List {
	h.Helper()
	l, err := h.Client.List(h.ctx, k, o)
	if err != nil {
		h.Fatalf("list %s %+v: %v", k, o, err)
	}
	return l
}

func (h *harness) watch(k *api.Kind, o client.WatchOptions) client.Watcher {
	h.Helper()
	w, err := h.Client.Watch(h.ctx, k, o)
	if err != nil {
		h.Fatalf("watch %s %+v: %v", k, o, err)
	}
	h.Cleanup(w.Close)
	return w
}

// next returns the next event that is no bookmark.
func (h *harness) next(w client.Watcher) client.Event {
	h.Helper()
	for {
		ev, err := w.Next(h.ctx)
		if err != nil {
			h.Fatalf("next event: %v", err)
		}
		if ev.Type != client.Bookmark {
			return ev
		}
	}
}

func (h *harness) wantEvent(w client.Watcher, t client.EventType, name string) api.Object {
	h.Helper()
	ev := h.next(w)
	if ev.Type != t || ev.Object.Meta().Name != name {
		h.Fatalf("event: got %s %s, want %s %s", ev.Type, ev.Object.Meta().Name, t, name)
	}
	return ev.Object
}

func (h *harness) wantClass(err error, want fault.Class) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("error: got class %q (%v), want class %q", fault.ClassOf(err), err, want)
	}
}

func (h *harness) transact(c client.Client, tx client.Transaction) []client.TxResult {
	h.Helper()
	res, err := c.Transact(h.ctx, tx)
	if err != nil {
		h.Fatalf("transaction: %v", err)
	}
	return res
}

func names(items []api.Object) []string {
	out := make([]string, 0, len(items))
	for _, o := range items {
		out = append(out, o.Meta().Name)
	}
	return out
}
