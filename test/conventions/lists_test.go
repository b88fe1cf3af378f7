package conventions

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// listed is the names of a list's items.
func listed(r reply) string {
	var names []string
	items, _ := r.body["items"].([]any)
	for _, it := range items {
		m, _ := it.(map[string]any)
		names = append(names, doc(m).at("metadata.name"))
	}
	return strings.Join(names, " ")
}

func listPoints() []point {
	return []point{
		{"lists", "a list is KIND+List with a resourceVersion; a label selector picks; a name picks one; a field that is none answers 400 and names those that are", nil, func(c *try) error {
			for i := range 2 {
				if _, err := c.create(i); err != nil {
					return err
				}
			}
			r, err := c.want(http.StatusOK, http.MethodGet, c.mine(""), nil)
			if err != nil {
				return err
			}
			if err := same("list", r.body.at("kind")+" "+listed(r), c.kind.Kind+"List "+c.name(0)+" "+c.name(1)); err != nil {
				return err
			}
			if r.body.at("metadata.resourceVersion") == "" {
				return fmt.Errorf("no resourceVersion: %s", r.raw)
			}
			r, err = c.want(http.StatusOK, http.MethodGet, c.collection()+"?fieldSelector=metadata.name%3D"+c.name(1), nil)
			if err != nil {
				return err
			}
			if err := same("by name", listed(r), c.name(1)); err != nil {
				return err
			}
			r, err = c.refused(http.StatusBadRequest, "BadRequest", http.MethodGet, c.collection()+"?fieldSelector=spec.nothing%3Dx", nil)
			if err == nil && !strings.Contains(r.raw, "metadata.name") {
				err = fmt.Errorf("the supported fields are not named: %s", r.raw)
			}
			return err
		}},
		{"lists", "pages of one list are of one revision: nothing is missed, repeated or added while they are read", nil, paged},
		{"lists", "Exact reads the very revision, NotOlderThan a newer one, one to come answers 504, contradictions 422", nil, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			before, err := c.want(http.StatusOK, http.MethodGet, c.mine(""), nil)
			if err != nil {
				return err
			}
			if _, err := c.create(2); err != nil {
				return err
			}
			rv := before.body.at("metadata.resourceVersion")
			for match, want := range map[string]string{"Exact": c.name(1), "NotOlderThan": c.name(1) + " " + c.name(2)} {
				r, err := c.want(http.StatusOK, http.MethodGet, c.mine("&resourceVersion="+rv+"&resourceVersionMatch="+match), nil)
				if err != nil {
					return err
				}
				if err := same(match, listed(r), want); err != nil {
					return err
				}
			}
			if _, err := c.refused(http.StatusGatewayTimeout, "Timeout", http.MethodGet, c.mine("&resourceVersion="+later(rv)+"&resourceVersionMatch=NotOlderThan"), nil); err != nil {
				return err
			}
			for _, q := range []string{"&resourceVersionMatch=Exact", "&resourceVersion=0&resourceVersionMatch=Exact", "&resourceVersion=1&resourceVersionMatch=Odd"} {
				if _, err := c.refused(http.StatusUnprocessableEntity, "Invalid", http.MethodGet, c.mine(q), nil); err != nil {
					return err
				}
			}
			return nil
		}},
		{"watches", "a watch from a list's revision has every change in order; resumed from any of them it has the rest, none twice", nil, watched},
		{"watches", "sendInitialEvents begins with what is there, ended by a marked bookmark; without its match it answers 422", nil, func(c *try) error {
			if _, err := c.create(1); err != nil {
				return err
			}
			q := "&watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
			if _, err := c.refused(http.StatusUnprocessableEntity, "Invalid", http.MethodGet, c.mine(q), nil); err != nil {
				return err
			}
			events, err := c.watch(c.ctx, c.mine(q+"&resourceVersionMatch=NotOlderThan"), func(e event) bool { return e.Type == "BOOKMARK" })
			if err != nil {
				return err
			}
			end := events[len(events)-1].Object
			notes, _ := end["metadata"].(map[string]any)["annotations"].(map[string]any)
			if len(events) != 2 || events[0].Type != "ADDED" || notes["k8s.io/initial-events-end"] != "true" || end.at("metadata.resourceVersion") == "" {
				return fmt.Errorf("events: %v", events)
			}
			return nil
		}},
		{"watches", "a revision that is no longer kept answers 410 Expired to a watch, an exact list and a page, which gets a token to go on with", nil, expired},
	}
}

// later is a revision that is far from being reached.
func later(rv string) string {
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return rv
	}
	return strconv.FormatUint(n+1_000_000, 10)
}

func paged(c *try) error {
	for i := range 5 {
		if _, err := c.create(i); err != nil {
			return err
		}
	}
	var names []string
	token, revision := "", ""
	for page := range 10 {
		r, err := c.want(http.StatusOK, http.MethodGet, c.mine("&limit=2&continue="+url.QueryEscape(token)), nil)
		if err != nil {
			return err
		}
		names = append(names, listed(r))
		if revision == "" {
			revision = r.body.at("metadata.resourceVersion")
		}
		if err := same("revision of a page", r.body.at("metadata.resourceVersion"), revision); err != nil {
			return err
		}
		if token = r.body.at("metadata.continue"); token == "" {
			break
		}
		if _, err := c.create(10 + page); err != nil {
			return err
		}
	}
	var want []string
	for i := range 5 {
		want = append(want, c.name(i))
	}
	return same("pages", strings.TrimSpace(strings.Join(names, " ")), strings.Join(want, " "))
}

func watched(c *try) error {
	start, err := c.want(http.StatusOK, http.MethodGet, c.mine(""), nil)
	if err != nil {
		return err
	}
	if _, err := c.create(1); err != nil {
		return err
	}
	note := `{"metadata":{"annotations":{"a":"b"}}}`
	if _, err := c.want(http.StatusOK, http.MethodPatch, c.path(c.name(1)), note, "Content-Type", "application/merge-patch+json"); err != nil {
		return err
	}
	if _, err := c.create(2); err != nil {
		return err
	}
	if err := c.removeAll(1); err != nil {
		return err
	}
	last := func(e event) bool { return e.Type == "DELETED" && e.Object.at("metadata.name") == c.name(1) }
	all, err := c.watch(c.ctx, c.mine("&watch=true&resourceVersion="+start.body.at("metadata.resourceVersion")), last)
	if err != nil {
		return err
	}
	said := func(events []event) string {
		var out []string
		for _, e := range events {
			out = append(out, e.Type+" "+e.Object.at("metadata.name")+"@"+e.Object.at("metadata.resourceVersion"))
		}
		return strings.Join(out, ", ")
	}
	var order []string // a quota may change more than once, with what it counts
	for _, e := range all {
		if one := e.Type + " " + e.Object.at("metadata.name"); len(order) == 0 || order[len(order)-1] != one {
			order = append(order, one)
		}
	}
	if want := []string{"ADDED " + c.name(1), "MODIFIED " + c.name(1), "ADDED " + c.name(2)}; len(order) < 4 || !slices.Equal(order[:3], want) {
		return fmt.Errorf("events: got %s, want them to begin with %v", said(all), want)
	}
	for i := range len(all) - 1 {
		rest, err := c.watch(c.ctx, c.mine("&watch=true&resourceVersion="+all[i].Object.at("metadata.resourceVersion")), last)
		if err != nil {
			return err
		}
		if err := same(fmt.Sprintf("resumed after event %d", i), said(rest), said(all[i+1:])); err != nil {
			return err
		}
	}
	return nil
}

// removeAll deletes an object for good: a namespace goes in two steps, the second of which its own deletion makes where it is empty.
func (c *try) removeAll(i int) error {
	_, err := c.want(http.StatusOK, http.MethodDelete, c.path(c.name(i)), nil)
	return err
}

func expired(c *try) error {
	for i := range 3 {
		if _, err := c.create(i); err != nil {
			return err
		}
	}
	page, err := c.want(http.StatusOK, http.MethodGet, c.mine("&limit=1"), nil)
	if err != nil {
		return err
	}
	rv := page.body.at("metadata.resourceVersion")
	for i := range 2 {
		note := fmt.Sprintf(`{"metadata":{"annotations":{"a":"%d"}}}`, i)
		if _, err := c.want(http.StatusOK, http.MethodPatch, c.path(c.name(2)), note, "Content-Type", "application/merge-patch+json"); err != nil {
			return err
		}
	}
	if err := c.compact(c.ctx); err != nil {
		return err
	}
	if _, err := c.refused(http.StatusGone, "Expired", http.MethodGet, c.mine("&resourceVersion="+rv+"&resourceVersionMatch=Exact"), nil); err != nil {
		return err
	}
	if _, err := c.refused(http.StatusGone, "Expired", http.MethodGet, c.mine("&watch=1&resourceVersion="+rv), nil); err != nil {
		return err
	}
	r, err := c.refused(http.StatusGone, "Expired", http.MethodGet, c.mine("&limit=1&continue="+page.body.at("metadata.continue")), nil)
	if err != nil {
		return err
	}
	r, err = c.want(http.StatusOK, http.MethodGet, c.mine("&continue="+r.body.at("metadata.continue")), nil)
	if err != nil {
		return err
	}
	return same("the rest", listed(r), c.name(1)+" "+c.name(2))
}

func deletePoints() []point {
	return []point{
		{"deletion", "a precondition that does not hold answers 409; else 200 with a Status that names the uid, and then there is nothing", nil, func(c *try) error {
			o, err := c.create(1)
			if err != nil {
				return err
			}
			p := c.path(c.name(1))
			for _, pre := range []doc{{"uid": "another"}, {"resourceVersion": "1099511627777"}} {
				if _, err := c.refused(http.StatusConflict, "Conflict", http.MethodDelete, p, doc{"preconditions": pre}); err != nil {
					return err
				}
			}
			if _, err := c.refused(http.StatusUnprocessableEntity, "Invalid", http.MethodDelete, p+"?propagationPolicy=Sideways", nil); err != nil {
				return err
			}
			if _, err := c.want(http.StatusOK, http.MethodDelete, p+"?dryRun=All", nil); err != nil {
				return err
			}
			r, err := c.want(http.StatusOK, http.MethodDelete, p+"?gracePeriodSeconds=0&propagationPolicy=Background", doc{"preconditions": doc{"uid": o.at("metadata.uid")}})
			if err != nil {
				return err
			}
			if err := same("answer", r.body.at("status")+" "+r.body.at("details.uid"), "Success "+o.at("metadata.uid")); err != nil {
				return err
			}
			_, err = c.refused(http.StatusNotFound, "NotFound", http.MethodDelete, p, nil)
			return err
		}},
		{"deletion", "finalizers hold an object, marked with the time; none can be added; when the last is gone it is", nil, func(c *try) error {
			o := c.object(c.name(1))
			o["metadata"].(doc)["finalizers"] = []string{"a.example/x"}
			if _, err := c.want(http.StatusCreated, http.MethodPost, c.collection(), o); err != nil {
				return err
			}
			p := c.path(c.name(1))
			r, err := c.want(http.StatusOK, http.MethodDelete, p, nil)
			if err != nil {
				return err
			}
			if r.body.at("metadata.deletionTimestamp") == "" {
				return fmt.Errorf("no deletionTimestamp: %s", r.raw)
			}
			const media = "application/merge-patch+json"
			if _, err := c.refused(http.StatusUnprocessableEntity, "Invalid", http.MethodPatch, p, `{"metadata":{"finalizers":["a.example/x","b.example/y"]}}`, "Content-Type", media); err != nil {
				return err
			}
			if _, err := c.want(http.StatusOK, http.MethodPatch, p, `{"metadata":{"finalizers":null}}`, "Content-Type", media); err != nil {
				return err
			}
			if c.kind.Kind == "Namespace" { // which its controller ends, once it has found it empty
				return c.removeAll(1)
			}
			_, err = c.refused(http.StatusNotFound, "NotFound", http.MethodGet, p, nil)
			return err
		}},
		{"deletion", "a collection is deleted as far as its selector goes", nil, func(c *try) error {
			for i := range 2 {
				if _, err := c.create(i); err != nil {
					return err
				}
			}
			if _, err := c.want(http.StatusOK, http.MethodDelete, c.collection()+"?fieldSelector=metadata.name%3D"+c.name(0), nil); err != nil {
				return err
			}
			r, err := c.want(http.StatusOK, http.MethodGet, c.mine(""), nil)
			if err != nil {
				return err
			}
			return same("left", listed(r), c.name(1))
		}},
	}
}
