package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/hub/registry"
)

// The condition that says whether status.images holds a digest for every image of the observed generation.
const (
	conditionImages   = "ImageResolved"
	reasonResolved    = "Resolved"
	reasonUnreachable = "RegistryUnreachable"
)

// atOnce is how many registries are asked at once for one workload.
const atOnce = 4

// resolveImages writes status.images and the condition ImageResolved for the spec that is being written. An image keeps the
// digest that it has, unless its policy is Always and a person writes: then it is asked for again on every apply. Images that
// the template no longer names are dropped.
func (a *Admitter) resolveImages(ctx context.Context, rq *registry.AdmissionRequest, w *api.Workload) error {
	old, _ := rq.Old.(*api.Workload)
	known := map[string]string{}
	if old != nil {
		known = old.Status.Images
	}
	want := imagesOf(w.Spec.Template.Spec)
	got := make(map[string]string, len(want))
	var ask []wanted
	for _, image := range want {
		if digest := known[image.name]; digest != "" && !(image.always && isPerson(rq.Actor)) {
			got[image.name] = digest
			continue
		}
		ask = append(ask, image)
	}
	answers := a.askAll(ctx, rq.Actor.RequestID, ask)
	var refused []fault.Cause
	var unknown []string
	for i, image := range ask {
		switch ans := answers[i]; {
		case ans.err == nil:
			got[image.name] = ans.digest
		case fault.Is(ans.err, fault.Invalid):
			refused = append(refused, fault.Cause{Field: image.field, Message: ans.err.Error()})
		default:
			unknown = append(unknown, ans.err.Error())
		}
	}
	if len(refused) > 0 {
		return fault.InvalidObject(rq.Kind.Kind, w.Metadata.Name, refused)
	}
	generation, err := generationOf(old, w)
	if err != nil {
		return err
	}
	w.Status.Images = got
	a.setCondition(rq, w, generation, unknown)
	return nil
}

func (a *Admitter) setCondition(rq *registry.AdmissionRequest, w *api.Workload, generation int64, unknown []string) {
	c := api.Condition{Type: conditionImages, Status: api.True, Reason: reasonResolved, ObservedGeneration: generation,
		Message: fmt.Sprintf("%d of %d images have a digest", len(w.Status.Images), len(w.Status.Images))}
	if len(unknown) > 0 {
		c.Status, c.Reason = api.False, reasonUnreachable
		c.Message = strings.Join(unknown, "; ") + "; nothing new starts until it can be asked"
		rq.Warnings = append(rq.Warnings, fmt.Sprintf("workload %s/%s: %s", w.Metadata.Namespace, w.Metadata.Name, c.Message))
	}
	api.SetCondition(&w.Status.Conditions, c, api.TimeOf(a.cfg.Now()))
}

// generationOf is the generation that the write will have: the registry counts it up once admission is through.
func generationOf(old, w *api.Workload) (int64, error) {
	if old == nil {
		return 1, nil
	}
	same, err := equalSpecs(old, w)
	if err != nil {
		return 0, fmt.Errorf("compare specs: %w", err)
	}
	if same {
		return old.Metadata.Generation, nil
	}
	return old.Metadata.Generation + 1, nil
}

// wanted is one image of a template, once, with the first field that names it.
type wanted struct {
	name   string
	field  string
	always bool // some container wants it resolved again
}

func imagesOf(spec api.PodSpec) []wanted {
	var out []wanted
	for i, c := range spec.Containers {
		if c.Image == "" {
			continue // validation says so
		}
		at := slices.IndexFunc(out, func(w wanted) bool { return w.name == c.Image })
		if at < 0 {
			out = append(out, wanted{name: c.Image, field: fmt.Sprintf("spec.template.spec.containers[%d].image", i)})
			at = len(out) - 1
		}
		out[at].always = out[at].always || c.ImagePullPolicy == "Always"
	}
	return out
}

type answer struct {
	digest string
	err    error
}

// askAll asks for all images at once, a few at a time; each answer has its own outcome.
func (a *Admitter) askAll(ctx context.Context, requestID string, images []wanted) []answer {
	out := make([]answer, len(images))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, image := range images {
		g.Go(func() error {
			out[i] = a.memo.do(requestID, image.name, func() answer {
				digest, err := a.cfg.Images.Resolve(ctx, image.name)
				if err != nil {
					a.cfg.Logger.Info("image not resolved", "image", image.name, "err", err)
				}
				return answer{digest, err}
			})
			return nil
		})
	}
	_ = g.Wait() // the answers carry the errors
	return out
}

// memoSize is how many answers are kept: a few requests' worth.
const memoSize = 256

// memo remembers the answers that one request got, for the registry plans a write anew when others write in between: the tag
// becomes a digest once. It never answers one request with what another was told.
type memo struct {
	mu    sync.Mutex
	known map[string]answer
	order []string // oldest first
}

func (m *memo) do(requestID, image string, ask func() answer) answer {
	if requestID == "" {
		return ask()
	}
	keyBytes, _ := json.Marshal([]string{requestID, image}) // two strings always encode
	key := string(keyBytes)
	m.mu.Lock()
	ans, ok := m.known[key]
	m.mu.Unlock()
	if ok {
		return ans
	}
	ans = ask()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]answer{}
	}
	if _, again := m.known[key]; !again {
		m.order = append(m.order, key)
	}
	m.known[key] = ans
	for len(m.order) > memoSize {
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
	return ans
}
