package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/backup"
	"github.com/drover-fleet/drover/client/remote"
	"github.com/drover-fleet/drover/consensus"
)

// three is a hub of three voters; the first one's admin comes with it.
func three(t *testing.T) (members [3]*running, admin *remote.Client) {
	t.Helper()
	members[0], admin = found(t, Config{})
	for i := 1; i < 3; i++ {
		name := fmt.Sprintf("h%d", i+1)
		d := t.TempDir()
		check(t, Join(within(t, 20*time.Second), d, identity(t, name), members[0].joining(members[0].token(admin, name))))
		members[i] = run(t, Config{Dir: d})
	}
	await(t, "three voters that have the state", func() bool {
		ready := 0
		for i, m := range members[0].node.Members() { // by name, as they are here
			if !m.Learner && members[i].store.Epoch().Number != 0 {
				ready++
			}
		}
		return ready == 3
	})
	return members, admin
}

func revisionOf(t *testing.T, o api.Object) uint64 {
	t.Helper()
	var n uint64
	_, err := fmt.Sscan(o.Meta().ResourceVersion, &n)
	check(t, err)
	return n
}

func TestF40SurvivorGoesOnAloneAndTheOldMembersAreRefused(t *testing.T) {
	h, admin := three(t)
	last, err := admin.Create(t.Context(), configMap("last"), client.WriteOptions{})
	check(t, err)
	await(t, "the survivor has it", func() bool { return uint64(h[0].store.Revision()) >= revisionOf(t, last) })
	for i := 2; i >= 0; i-- {
		h[i].stop()
	}
	path := h[0].cfg.Dir
	before, err := consensus.ReadLog(path)
	check(t, err)
	plan, err := ResetFromSurvivor(t.Context(), path, ResetOptions{DryRun: true})
	check(t, err)
	if len(plan.Dropped) != 2 || uint64(plan.Revision) < revisionOf(t, last) || plan.NextEpoch <= plan.Epoch {
		t.Errorf("plan: got %+v, want both others dropped, revision %d kept and a higher epoch", plan, revisionOf(t, last))
	}
	b, err := json.Marshal(plan)
	check(t, err)
	for _, want := range []string{fmt.Sprintf(`"firstRevision":"%d"`, plan.FirstRevision), `"dropped":[{"name":"h2","api":"`} {
		if !strings.Contains(string(b), want) { // a program that reads numbers as floating point keeps 53 bits
			t.Errorf("plan as JSON: got %s, want %s in it", b, want)
		}
	}
	if after, err := consensus.ReadLog(path); err != nil || !cmp.Equal(after, before) {
		t.Errorf("after the dry run raft.db says %+v (%v), want what it said before, %+v", after, err, before)
	}
	if exists(filepath.Join(path, folderReset)) {
		t.Error("the dry run left its folder")
	}
	_, err = ResetFromSurvivor(t.Context(), path, ResetOptions{})
	check(t, err)
	alone := run(t, Config{Dir: path})
	got, err := alone.admin().Get(within(t, 20*time.Second), api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS, Name: "last"}, client.GetOptions{})
	if err != nil || got.Meta().ResourceVersion != last.Meta().ResourceVersion {
		t.Errorf("what was acknowledged last: got %v (%v), want it at revision %s", got, err, last.Meta().ResourceVersion)
	}
	next, err := alone.admin().Create(within(t, 20*time.Second), configMap("next"), client.WriteOptions{})
	check(t, err)
	if revisionOf(t, next) <= uint64(1)<<41 || revisionOf(t, next) <= revisionOf(t, last) {
		t.Errorf("revision after the reset: got %d, want one of a later epoch than %d", revisionOf(t, next), revisionOf(t, last))
	}
	for _, old := range []*running{h[1], h[2]} {
		m, err := Open(Config{Dir: old.cfg.Dir})
		check(t, err)
		err = m.Run(within(t, 20*time.Second))
		if !errors.Is(err, ErrHistoryOver) || !strings.Contains(err.Error(), "--join") {
			t.Errorf("an old member that comes up: got %v, want that its history is over and what to do", err)
		}
	}
	d := t.TempDir()
	id := h[1].id
	id.ClusterID = ""
	check(t, Join(within(t, 20*time.Second), d, id, alone.joining(alone.token(alone.admin(), "again"))))
	again := run(t, Config{Dir: d})
	await(t, "the wiped member has the new history", func() bool { return again.store.Epoch() == alone.store.Epoch() })
}

// Both old members together are a majority of their own group, and the survivor may be away while they start.
func TestF40OldMajorityEndsOnceItCanAskTheSurvivor(t *testing.T) {
	h, _ := three(t)
	for i := 2; i >= 0; i-- {
		h[i].stop()
	}
	_, err := ResetFromSurvivor(t.Context(), h[0].cfg.Dir, ResetOptions{})
	check(t, err)
	ended := make(chan error, 2)
	ctx := within(t, 60*time.Second)
	for _, old := range []*running{h[1], h[2]} {
		m, err := Open(Config{Dir: old.cfg.Dir})
		check(t, err)
		go func() { ended <- m.Run(ctx) }()
	}
	run(t, Config{Dir: h[0].cfg.Dir})
	// The first of them to notice takes the majority along, and the other asks as soon as it has no leader.
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, ErrHistoryOver) {
				t.Errorf("an old member: got %v, want that its history is over", err)
			}
		case <-ctx.Done():
			t.Fatal("an old member goes on")
		}
	}
}

func TestF40ResetThatIsCutOffIsUndoneOrFinished(t *testing.T) {
	h, _ := three(t)
	for i := 2; i >= 0; i-- {
		h[i].stop()
	}
	d := h[0].dir
	whole := t.TempDir()
	check(t, os.CopyFS(whole, os.DirFS(string(d))))
	r, err := ResetFromSurvivor(t.Context(), string(d), ResetOptions{})
	check(t, err)
	made, err := os.ReadFile(d.path(fileLog))
	check(t, err)

	cut := dir(t.TempDir()) // before the note
	check(t, os.CopyFS(string(cut), os.DirFS(whole)))
	check(t, os.MkdirAll(cut.path(folderReset), 0o700))
	check(t, os.WriteFile(filepath.Join(cut.path(folderReset), fileLog), []byte("half"), 0o600))
	check(t, cut.removeUnfinished())
	if exists(cut.path(folderReset)) || exists(cut.path(folderOld)) {
		t.Error("what an unfinished reset made is still there")
	}

	cut = dir(t.TempDir()) // after the note, with one of two files in place
	check(t, os.CopyFS(string(cut), os.DirFS(whole)))
	check(t, os.MkdirAll(cut.path(folderReset), 0o700))
	check(t, copyFile(d.path(fileState), filepath.Join(cut.path(folderReset), fileState)))
	old := fmt.Sprintf("%s%d", folderOld, r.NextEpoch)
	check(t, os.MkdirAll(cut.path(old), 0o700))
	check(t, os.Rename(cut.path(fileLog), filepath.Join(cut.path(old), fileLog)))
	check(t, os.WriteFile(cut.path(fileLog), made, 0o600))
	check(t, cut.write(fileReset, fmt.Appendf(nil, `{"nextEpoch":%d}`, r.NextEpoch)))
	m := run(t, Config{Dir: string(cut)})
	if got := m.store.Epoch().Number; got != r.NextEpoch {
		t.Errorf("epoch after the next start: got %d, want %d", got, r.NextEpoch)
	}
	if exists(cut.path(fileReset)) || exists(cut.path(folderReset)) {
		t.Error("the note or its folder is still there")
	}
}

func TestF40ResetRefusesWhereNothingIsToBeReset(t *testing.T) {
	h, _ := found(t, Config{})
	if _, err := ResetFromSurvivor(t.Context(), h.cfg.Dir, ResetOptions{}); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("reset under a running member: got %v, want who uses the directory", err)
	}
	h.stop()
	if _, err := ResetFromSurvivor(t.Context(), h.cfg.Dir, ResetOptions{}); err == nil || !strings.Contains(err.Error(), "start it as it is") {
		t.Errorf("reset of a group of one: got %v, want what to do", err)
	}
}

// saved takes a backup and the key that goes with it.
func saved(t *testing.T, h *running, admin *remote.Client) (file, key string) {
	t.Helper()
	folder := t.TempDir()
	file, key = filepath.Join(folder, "hub.backup"), filepath.Join(folder, "sealing.key")
	in, err := admin.HubSnapshot(t.Context())
	check(t, err)
	_, err = backup.Save(file, in)
	check(t, errors.Join(err, in.Close()))
	check(t, ExportKey(h.cfg.Dir, key))
	return file, key
}

func TestF33HistoryNeverRunsBackwardsAfterARestore(t *testing.T) {
	h, admin := found(t, Config{})
	_, err := admin.Create(t.Context(), configMap("kept"), client.WriteOptions{})
	check(t, err)
	file, key := saved(t, h, admin)
	lost, err := admin.Create(t.Context(), configMap("lost"), client.WriteOptions{})
	check(t, err)
	h.stop()

	o := RestoreOptions{File: file, Key: key, Identity: identity(t, "h9")}
	path := filepath.Join(t.TempDir(), "new")
	dry := o
	dry.DryRun = true
	plan, err := RestoreBackup(t.Context(), path, dry)
	check(t, err)
	if exists(path) {
		t.Error("the dry run made the directory")
	}
	done, err := RestoreBackup(t.Context(), path, o)
	check(t, err)
	if done.Revision != plan.Revision || done.Devices != plan.Devices || done.ClusterID != plan.ClusterID {
		t.Errorf("done: got %+v, want what the dry run said, %+v", done.Turn, plan.Turn)
	}
	again := run(t, Config{Dir: path})
	await(t, "it serves", func() bool { _, err := again.keys.get(); return err == nil })
	c := again.admin()
	if _, err := c.Get(within(t, 20*time.Second), api.Ref{Kind: api.KindConfigMap, Namespace: api.DefaultNS, Name: "kept"}, client.GetOptions{}); err != nil {
		t.Errorf("what the backup holds: %v", err)
	}
	next, err := c.Create(within(t, 20*time.Second), configMap("next"), client.WriteOptions{})
	check(t, err)
	if revisionOf(t, next) <= revisionOf(t, lost) {
		t.Errorf("revision after the restore: got %d, want one above %d, which was given out after the backup", revisionOf(t, next), revisionOf(t, lost))
	}
	_, err = c.Watch(t.Context(), api.KindConfigMap, client.WatchOptions{Namespace: api.DefaultNS, ResourceVersion: lost.Meta().ResourceVersion})
	if err == nil {
		w, werr := c.Watch(t.Context(), api.KindConfigMap, client.WatchOptions{Namespace: api.DefaultNS, ResourceVersion: lost.Meta().ResourceVersion})
		check(t, werr)
		_, err = w.Next(within(t, 10*time.Second))
		w.Close()
	}
	if !fault.Is(err, fault.OtherEpoch, fault.Expired) {
		t.Errorf("a watch from the epoch before: got %v, want to be told to list again", err)
	}
}

func TestF33SecondRestoreOfOneBackupIsAboveTheFirst(t *testing.T) {
	at := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	first := nextEpoch(at, 1)
	if second := nextEpoch(at.Add(epochUnit), 1); second <= first || first <= 1 {
		t.Errorf("epochs of two restores of a backup of epoch 1: got %d, then %d, want them to rise", first, second)
	}
	if got := nextEpoch(time.Unix(0, 0), 7, 3); got != 8 {
		t.Errorf("with a clock that was never set: got %d, want 8", got)
	}
	if got := nextEpoch(at.AddDate(1000, 0, 0), 7); got != epochLast {
		t.Errorf("with a clock a thousand years ahead: got %d, want %d", got, epochLast)
	}
}

func TestF33RestoreRefusesWhatItCannotMakeWhole(t *testing.T) {
	h, admin := found(t, Config{})
	file, key := saved(t, h, admin)
	other, _ := found(t, Config{})
	text, err := os.ReadFile(file)
	check(t, err)
	folder := t.TempDir()
	cut, foreign := filepath.Join(folder, "cut"), filepath.Join(folder, "foreign.key")
	check(t, os.WriteFile(cut, text[:len(text)-40], 0o600))
	check(t, ExportKey(other.cfg.Dir, foreign))
	used := t.TempDir()
	check(t, os.WriteFile(filepath.Join(used, "photo.jpg"), nil, 0o600))
	id := identity(t, "h1")
	for _, tt := range []struct {
		name, path, want string
		o                RestoreOptions
	}{
		{"a cut backup", "", "no whole backup", RestoreOptions{File: cut, Key: key, Identity: id}},
		{"another hub's key", "", "values in the backup are sealed by the key", RestoreOptions{File: file, Key: foreign, Identity: id}},
		{"a directory of a member", h.cfg.Dir, "belongs to a hub member already", RestoreOptions{File: file, Key: key, Identity: id}},
		{"a foreign directory", used, "photo.jpg", RestoreOptions{File: file, Key: key, Identity: id}},
	} {
		path := tt.path
		if path == "" {
			path = t.TempDir()
		}
		if _, err := RestoreBackup(t.Context(), path, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
		if tt.path != "" {
			continue
		}
		if _, err := Open(Config{Dir: path}); err == nil {
			t.Errorf("%s: the directory is a member's all the same", tt.name)
		}
		if _, err := RestoreBackup(t.Context(), path, RestoreOptions{File: file, Key: key, Identity: id}); err != nil {
			t.Errorf("%s: a second attempt with the right files: %v", tt.name, err)
		}
	}
}

// A backup of a member that is written to is of one moment all the same.
func TestBackupIsOfOneMoment(t *testing.T) {
	h, admin := found(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = admin.Create(ctx, configMap(fmt.Sprintf("c%d", i)), client.WriteOptions{})
		}
	}()
	for range 5 {
		file, key := saved(t, h, h.admin())
		if _, err := RestoreBackup(t.Context(), t.TempDir(), RestoreOptions{File: file, Key: key, Identity: identity(t, "h1")}); err != nil {
			t.Errorf("restore of a backup taken under load: %v", err)
		}
	}
	cancel()
	<-ended
}

var _ io.Reader = moment{}
