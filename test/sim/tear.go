package sim

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-fleet/drover/agent"
	"github.com/drover-fleet/drover/test/history"
)

// deviceFaults are what happens to boards.
func deviceFaults() []kind[*device] {
	return []kind[*device]{
		{"power cut", 2, (*device).powerCut},
		{"power cut inside a save", 2, func(d *device) bool {
			d.tearIn = 1 + d.w.rng.IntN(3)
			return true
		}},
		{"agent killed", 2, (*device).killAgent},
		{"agent stalls", 1, func(d *device) bool {
			if !d.up || d.stalled {
				return false
			}
			d.stalled = true
			life := d.life
			d.w.undoLater("the agent of "+d.name+" stalls", faultTime/2, func() {
				if d.up && d.life == life {
					d.resume()
				}
			})
			return true
		}},
		{"runtime down", 2, func(d *device) bool {
			d.runtime.Down()
			d.step(runtimeChanged())
			d.w.undoLater("the runtime of "+d.name+" is down", faultTime, func() {
				d.faults++
				d.runtime.Up()
				d.step(runtimeChanged())
			})
			return true
		}},
		{"cut off", 4, func(d *device) bool { d.cutOff(); return true }},
		{"container killed", 1, func(d *device) bool {
			d.runtime.KillByHand("main")
			d.step(runtimeChanged())
			return true
		}},
		{"container removed", 1, func(d *device) bool {
			d.runtime.RemoveByHand("main")
			d.step(runtimeChanged())
			return true
		}},
		{"full disk", 1, func(d *device) bool {
			d.full = true
			d.w.undoLater("the disk of "+d.name+" is full", faultTime, func() { d.full = false })
			return true
		}},
		{"clock steps", 2, func(d *device) bool {
			d.skew = d.w.step(40 * 365 * 24 * time.Hour)
			d.w.undoLater("the clock of "+d.name+" is off", 2*faultTime, func() { d.skew = 0 })
			return true
		}},
	}
}

// saveBundle and saveRuntime carry out what the core wants kept. No answer: the power went away meanwhile.
func (d *device) saveBundle(e agent.SaveBundle) agent.Event {
	var saved agent.BundleSaved
	if !d.save("bundle", func() { saved = d.files.SaveBundle(e) }) {
		return nil
	}
	if d.full {
		return agent.BundleSaved{Bundle: e.Bundle, Err: syscall.ENOSPC}
	}
	return saved
}

func (d *device) saveRuntime(e agent.SaveRuntime) agent.Event {
	var saved agent.RuntimeSaved
	if !d.save("runtime", func() { saved = d.files.SaveRuntime(e) }) {
		return nil
	}
	if d.full {
		return agent.RuntimeSaved{Err: syscall.ENOSPC}
	}
	return saved
}

// save writes a file unless the disk is full; false says that the power went away in the middle.
func (d *device) save(name string, do func()) bool {
	if d.tearIn > 0 {
		if d.tearIn--; d.tearIn == 0 {
			d.tear(filepath.Join(d.dir, name), do)
			d.powerCut()
			return false
		}
	}
	if !d.full {
		do()
	}
	return true
}

// tear leaves the file as a power cut inside a save does: the new copy is half there, or not in its place yet, or the old one has
// moved away already.
func (d *device) tear(path string, do func()) {
	before, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return // nothing was saved before: as if the save had not begun
	}
	kept, _ := os.ReadFile(path + ".prev") // there may be none
	do()
	after, err2 := os.ReadFile(path)
	state := d.w.rng.IntN(3)
	if state == 0 {
		after = after[:d.w.rng.IntN(len(after))]
	}
	err = errors.Join(err, err2, os.WriteFile(path+".tmp", after, 0o600))
	if state < 2 {
		err = errors.Join(err, os.WriteFile(path, before, 0o600))
		if kept != nil {
			err = errors.Join(err, os.WriteFile(path+".prev", kept, 0o600))
		}
	} else {
		err = errors.Join(err, os.WriteFile(path+".prev", before, 0o600), os.Remove(path))
	}
	if err != nil {
		d.w.fail(history.NoErrors, "tear %s of %s: %v", filepath.Base(path), d.name, err)
	}
}
