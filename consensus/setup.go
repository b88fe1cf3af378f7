package consensus

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-fleet/drover/consensus/raftlog"
)

const (
	logFile        = "raft.db"
	incomingPrefix = "incoming-"
	outgoingPrefix = "outgoing-" // has a name for a moment only
)

// NewSuffix ends the name of a raft.db that is being made. One that is left over means nothing.
const NewSuffix = raftlog.NewSuffix

// ErrNotEmpty means that the directory belongs to a member already.
var ErrNotEmpty = raftlog.ErrNotEmpty

// ErrNoIdentity means that the directory was never prepared by Bootstrap or Join.
var ErrNoIdentity = errors.New("directory belongs to no member yet")

// Discard removes what Bootstrap or Join made, so that it can be made anew: a member that never ran knows nothing. Nothing
// there is no error. ErrNotEmpty: the member has run, and its log may hold what nobody else does.
func Discard(dir string) error {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	l, err := raftlog.Open(path)
	if err != nil {
		return err
	}
	meta := l.Meta()
	last, err := l.LastIndex()
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	if last > 1 || meta.Hard.GetVote() != 0 || meta.Hard.GetTerm() > 1 || meta.Pending != nil {
		return fmt.Errorf("%s: %w: it holds the log of member %q, which has run", path, ErrNotEmpty, meta.Identity.Name)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("discard: %w", err)
	}
	return nil
}

// Bootstrap makes the directory that of the first and only member of a new group. It refuses a directory that belongs
// to a member. The log begins after entry 1, so that later members cannot replay it from nothing and are always given
// a snapshot with the membership.
func Bootstrap(cfg Config) error { return BootstrapAt(cfg, 1, 1) }

// Join prepares an empty directory for a member that the group has already added. id and members are what AddMember
// and Members answered; members only has to name someone who can be reached.
func Join(cfg Config, id uint64, members []Member) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	if id == 0 {
		return errors.New("join: id is 0")
	}
	identity := raftlog.Identity{ID: id, Name: cfg.Self.Name}
	conf := raftlog.Conf{Members: encodeMembers(members)}
	if err := raftlog.Create(filepath.Join(cfg.Dir, logFile), identity, nil, conf); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return nil
}

// Open reads the directory and returns a node that does nothing until Run. It waits a few seconds at most for another
// process that holds raft.db.
func Open(cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open consensus: %w", err)
	}
	log, err := raftlog.Open(filepath.Join(cfg.Dir, logFile))
	if err != nil {
		return nil, fmt.Errorf("open consensus: %w", err)
	}
	return openOn(cfg, log)
}

// openOn owns the log, and closes it when it fails.
func openOn(cfg Config, log StoredLog) (*Node, error) {
	n, err := open(cfg, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open consensus: %w", err), log.Close())
	}
	return n, nil
}

func open(cfg Config, log StoredLog) (*Node, error) {
	if cfg.Machine == nil || cfg.Transport == nil {
		return nil, errors.New("a Machine and a Transport are required")
	}
	meta := log.Meta()
	if meta.Identity.ID == 0 {
		return nil, fmt.Errorf("%s: %w", log.Path(), ErrNoIdentity)
	}
	if meta.Identity.Name != cfg.Self.Name {
		return nil, fmt.Errorf("%s belongs to member %q, not %q", log.Path(), meta.Identity.Name, cfg.Self.Name)
	}
	if err := finishInstall(log, cfg.Applied); err != nil {
		return nil, err
	}
	if err := removeIncoming(cfg.Dir); err != nil {
		return nil, err
	}
	meta = log.Meta()
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	virgin := len(meta.Conf.State.GetVoters()) == 0
	members, err := decodeMembers(meta.Conf.Members)
	if err != nil {
		return nil, err
	}
	if cfg.Applied > last && !virgin && len(members) == 1 {
		return nil, fmt.Errorf("state has applied entry %d, but %s ends at %d: the two are not of one moment; restore both from one backup",
			cfg.Applied, log.Path(), last)
	}
	if cfg.Applied < meta.Begin.Index && !virgin && meta.Begin.Index > 1 {
		return nil, fmt.Errorf("state has applied entry %d, but %s begins after %d: entries in between are gone; "+
			"empty the directory and join this member again", cfg.Applied, log.Path(), meta.Begin.Index)
	}
	return newNode(cfg, log, meta)
}

func newNode(cfg Config, log StoredLog, meta raftlog.Meta) (*Node, error) {
	proposer, err := randomID()
	if err != nil {
		return nil, err
	}
	if cfg.freshID, err = randomID(); err != nil {
		return nil, err
	}
	core, err := newCore(cfg, log, meta, proposer)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: log, core: core, proposer: proposer, observe: cfg.Observer.orNothing(),
		pings: map[uint64]sentPing{}, trips: map[uint64]time.Duration{},
		wake: make(chan struct{}, 1), stopped: make(chan struct{}), leadership: make(chan struct{}),
		waiters: map[uint64]chan completion{}, sending: map[uint64]sending{},
		appender: newQueue[persistWork](), applier: newQueue[applyJob](),
		applied: core.applied,
		pace:    pacer{rate: cfg.SnapshotRate},
	}
	n.publish(output{confMoved: true})
	return n, nil
}

// finishInstall makes log and machine agree about a snapshot that was being installed when the process died.
func finishInstall(log StoredLog, applied uint64) error {
	pending := log.Meta().Pending
	switch {
	case pending == nil:
		return nil
	case applied >= pending.Begin.Index:
		return log.FinishInstall(nil) // the machine has it: only the log was left to do
	default:
		return log.DropInstall() // the machine has not: the leader sends it again
	}
}

func removeIncoming(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), incomingPrefix) || strings.HasPrefix(f.Name(), outgoingPrefix) {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return fmt.Errorf("remove unfinished snapshot: %w", err)
			}
		}
	}
	return nil
}

// randomID is a random number of 63 bits, not 0: raft keeps the highest values for itself.
func randomID() (uint64, error) {
	var b [8]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("random id: %w", err)
		}
		if id := binary.BigEndian.Uint64(b[:]) >> 1; id != 0 {
			return id, nil
		}
	}
}

// queue hands work from the loop to one worker. Its length is bounded by raft: at most the uncommitted and the
// committed-but-not-applied bytes it was configured with.
type queue[T any] struct {
	ready chan struct{} // one slot

	mu    sync.Mutex // guards items
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) put(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	signal(q.ready)
}

func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = nil
	return items
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
