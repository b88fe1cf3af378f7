package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/consensus"
	"github.com/drover-fleet/drover/hub/enroll"
	"github.com/drover-fleet/drover/hub/metrics"
	"github.com/drover-fleet/drover/hub/registry"
	"github.com/drover-fleet/drover/store/mvcc"
)

const (
	certificateWarn = 30 * 24 * time.Hour
	certificateBad  = 7 * 24 * time.Hour
)

// Finding is one thing that a doctor looked at, as remote.Finding has it.
type Finding = remote.Finding

// Levels of a finding that ask for something.
const (
	FindingWarn = remote.FindingWarn
	FindingBad  = remote.FindingBad
)

// examination collects what a doctor finds in a directory.
type examination struct {
	d        dir
	findings []Finding
}

func (x *examination) ok(what string, args ...any) {
	x.findings = append(x.findings, Finding{Level: remote.FindingOK, What: fmt.Sprintf(what, args...)})
}

func (x *examination) warn(do, what string, args ...any) {
	x.findings = append(x.findings, Finding{Level: FindingWarn, What: fmt.Sprintf(what, args...), Do: do})
}

func (x *examination) bad(do, what string, args ...any) {
	x.findings = append(x.findings, Finding{Level: FindingBad, What: fmt.Sprintf(what, args...), Do: do})
}

// Examine looks at a member's directory while no member runs on it, and changes nothing that a start would not. An error means that it
// could not be looked at: it is no member's, or somebody works on it.
func Examine(ctx context.Context, path string) (findings []Finding, err error) {
	d := dir(path)
	id, err := d.loadIdentity()
	if err != nil {
		return nil, err
	}
	lock, err := d.lock(lockWait)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	x := &examination{d: d}
	x.ok("%s belongs to member %s (API %s, peers %s) of cluster %s", d, id.Name, id.API, id.Peer, orElse(id.ClusterID, "not founded yet"))
	if exists(d.path(fileReset)) {
		x.warn("start the member: it finishes the reset", "a reset was cut off after it was decided")
		return x.findings, nil
	}
	x.room()
	x.credentials()
	log := x.log(id)
	x.state(ctx, id, log)
	return x.findings, nil
}

func (x *examination) room() {
	free, size := room(string(x.d))
	need := sizeOf(x.d.path(fileState)) + resetMargin
	switch {
	case size == 0:
	case free < resetMargin:
		x.bad(fmt.Sprintf("make room on the file system of the directory before you start the member: %d MiB at least, %d MiB so that the state file can be rewritten too",
			resetMargin>>20, need>>20), "%d MiB are free of %d MiB", free>>20, size>>20)
	case free < need || metrics.Scarce(free, size):
		x.warn("make room: rewriting the state file, a copy for another member and a reset need as much as the state file besides",
			"%d MiB are free of %d MiB, the state file takes %d MiB", free>>20, size>>20, sizeOf(x.d.path(fileState))>>20)
	default:
		x.ok("%d MiB are free of %d MiB", free>>20, size>>20)
	}
}

func (x *examination) credentials() {
	const rejoin = "move the directory away and join again (drover-hub --join), or put the file back from a copy"
	if _, err := registry.OpenSealer(x.d.path(fileSealing)); err != nil {
		x.bad("put sealing.key back: every other member has the same file, and drover-hub key export saves it", "the sealing key cannot be read: %v", err)
	} else {
		x.ok("the sealing key can be read")
	}
	creds, err := x.d.loadCredentials()
	switch {
	case err != nil:
		x.bad(rejoin, "the member's certificate cannot be read: %v", err)
		return
	case creds == nil:
		x.warn("the first member gets one when it first starts; another has to join again", "the member has no certificate yet")
		return
	}
	ends := creds.cert.Leaf.NotAfter
	switch left := time.Until(ends); {
	case left < certificateBad:
		x.bad(rejoin, "the member's certificate ends at %s", ends.UTC().Format(time.RFC3339))
	case left < certificateWarn:
		x.warn(rejoin, "the member's certificate ends at %s", ends.UTC().Format(time.RFC3339))
	default:
		x.ok("the member's certificate is good until %s", ends.UTC().Format(time.RFC3339))
	}
}

// nowhere takes entries and forgets them.
type nowhere struct{}

func (nowhere) Apply(entries []consensus.Entry) ([][]any, error) {
	return make([][]any, len(entries)), nil
}
func (nowhere) Synced() uint64                           { return 0 }
func (nowhere) Snapshot() (uint64, io.ReadCloser, error) { return 0, nil, errors.ErrUnsupported }
func (nowhere) Restore(uint64, io.Reader) error          { return errors.ErrUnsupported }

func (x *examination) log(id Identity) *consensus.LogState {
	const lost = "this member's log is damaged: remove the member (drover hub remove), move the directory away and join again; on a lone member restore a backup"
	err := soundFile(x.d.path(fileLog))
	if err != nil {
		x.bad(lost, "raft.db cannot be read: %v", err)
		return nil
	}
	log, err := consensus.ReadLog(string(x.d))
	if err != nil {
		x.bad(lost, "raft.db cannot be read: %v", err)
		return nil
	}
	if log.Name != id.Name {
		x.bad("put the right raft.db back", "raft.db belongs to member %q, member.json to %q", log.Name, id.Name)
		return nil
	}
	if _, err := consensus.Replay(string(x.d), nowhere{}, max(log.First, 1)-1); err != nil {
		x.bad(lost, "raft.db is damaged: %v", err)
		return nil
	}
	x.ok("raft.db holds entries %d to %d of term %d, known committed up to %d, %d members", log.First, log.Last, log.Term, log.Committed, len(log.Members))
	if len(log.Members) > 0 && !slices.ContainsFunc(log.Members, func(m consensus.Member) bool { return m.ID == log.ID }) {
		x.warn("move the directory away; to take part again, join with drover-hub --join", "the hub has removed this member: started, it serves nothing")
	}
	return &log
}

func (x *examination) state(ctx context.Context, id Identity, log *consensus.LogState) {
	const reseed = "move the file state away; the member is given the state again. On a lone member restore a backup"
	if !exists(x.d.path(fileState)) {
		x.warn("nothing, where the member has just joined: it is given the state when it starts", "there is no state file yet")
		return
	}
	err := soundFile(x.d.path(fileState))
	if err != nil {
		x.bad(reseed, "the state cannot be read: %v", err)
		return
	}
	s, err := mvcc.Open(x.d.path(fileState), mvcc.Options{})
	if err != nil {
		x.bad(reseed, "the state cannot be opened: %v", err)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			x.bad(reseed, "the state cannot be closed: %v", err)
		}
	}()
	if err := s.Verify(ctx); err != nil {
		x.bad(reseed, "%v", err)
		return
	}
	x.ok("state is of entry %d, revision %s of epoch %d (%s), and its contents have the hash that they should", s.Applied(), s.Revision(), s.Epoch().Number, s.Epoch().ID)
	x.agree(s, log)
	x.cluster(ctx, id, s)
}

// agree judges the two files, which are synced apart: the log may be ahead.
func (x *examination) agree(s *mvcc.Store, log *consensus.LogState) {
	switch applied := s.Applied(); {
	case log == nil || len(log.Members) == 0:
	case applied > log.Last && len(log.Members) > 1:
		x.warn("start it: it finds out itself and is given the state again", "raft.db ends at entry %d, before the state's %d: it is an older copy", log.Last, applied)
	case applied > log.Last:
		x.bad("restore both files from one moment, or restore a backup", "raft.db ends at entry %d, before the state's %d", log.Last, applied)
	case applied+1 < log.First && log.First > 2 && log.Installing == 0:
		x.bad("move the directory away and join again; on a lone member restore a backup", "entries %d to %d are in neither file", applied+1, log.First-1)
	case applied < log.Last:
		x.ok("state and raft.db agree; a start applies %d entries again", log.Last-applied)
	default:
		x.ok("state and raft.db agree")
	}
}

func (x *examination) cluster(ctx context.Context, id Identity, s *mvcc.Store) {
	sealer, err := registry.OpenSealer(x.d.path(fileSealing))
	if err != nil || s.Epoch().Number == 0 {
		return
	}
	authority, err := enroll.Open(ctx, enroll.Options{Records: held{s}, Sealer: sealer})
	switch {
	case err != nil:
		x.bad("put the sealing.key of this hub back: every other member has the same file", "the cluster's CA does not open: %v", err)
	case id.ClusterID != "" && authority.ClusterID() != id.ClusterID:
		x.bad("put this hub's own state file back", "the state is of cluster %s, the directory of %s", authority.ClusterID(), id.ClusterID)
	default:
		x.ok("the cluster's CA opens with the sealing key")
	}
}
