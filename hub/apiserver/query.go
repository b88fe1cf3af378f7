package apiserver

import (
	"net/url"
	"strconv"
	"time"

	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

// maxLimit is the most objects of one page, as a client may ask; more gets a page of so many and a continue token.
const maxLimit = 10_000

// listOptions reads what a list's query says. A resourceVersion other than 0 means "not older than" unless the query says otherwise.
func listOptions(q url.Values, namespace string) (client.ListOptions, error) {
	o := client.ListOptions{
		Namespace:     namespace,
		LabelSelector: q.Get("labelSelector"),
		FieldSelector: q.Get("fieldSelector"),
		Continue:      q.Get("continue"),
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return o, fault.BadRequest.Errorf("limit %q: want a number from 0 up", clip(text))
		}
		o.Limit = min(n, maxLimit)
	}
	rv, match := q.Get("resourceVersion"), q.Get("resourceVersionMatch")
	if err := checkRevision(rv); err != nil {
		return o, err
	}
	if err := checkMatch(rv, match, o); err != nil {
		return o, err
	}
	if o.Continue == "" {
		o.ResourceVersion = rv
		// Without a match, a page of a revision is of that very one, as it was before there were matches.
		o.Exact = match == "Exact" || (match == "" && o.Limit > 0 && rv != "" && rv != "0")
	}
	return o, nil
}

// checkMatch refuses combinations of resourceVersion, its match and a continue token that contradict each other.
func checkMatch(rv, match string, o client.ListOptions) error {
	switch {
	case match != "" && match != "Exact" && match != "NotOlderThan":
		return invalidOption("ListOptions", "resourceVersionMatch", "FieldValueNotSupported", "want Exact or NotOlderThan, not "+strconv.Quote(clip(match)))
	case match != "" && rv == "":
		return invalidOption("ListOptions", "resourceVersionMatch", "FieldValueForbidden", "it says how to match a resourceVersion, and none is given")
	case match != "" && o.Continue != "":
		return invalidOption("ListOptions", "resourceVersionMatch", "FieldValueForbidden", "it may not stand beside continue: the token carries its own revision")
	case match == "Exact" && rv == "0":
		return invalidOption("ListOptions", "resourceVersionMatch", "FieldValueForbidden", "0 is no revision that a list could be at exactly")
	case o.Continue != "" && rv != "" && rv != "0":
		return fault.BadRequest.Errorf("resourceVersion may not stand beside continue: the token carries its own")
	}
	return nil
}

// invalidOption is the refusal of a query's parameter, as Kubernetes words those that it validates like an object.
func invalidOption(options, field, reason, message string) error {
	return fault.InvalidObject(options, "", []fault.Cause{{Reason: reason, Field: field, Message: message}})
}

func checkRevision(rv string) error {
	if rv == "" {
		return nil
	}
	if _, err := strconv.ParseUint(rv, 10, 64); err != nil {
		return fault.BadRequest.Errorf("resourceVersion %q: want the decimal number of an earlier answer", clip(rv))
	}
	return nil
}

// watchOptions reads a watch's query. A single object is watched by its name.
func watchOptions(x *exchange) (client.WatchOptions, error) {
	q, ref := x.r.URL.Query(), x.route.ref
	o := client.WatchOptions{
		Namespace:       ref.Namespace,
		LabelSelector:   q.Get("labelSelector"),
		FieldSelector:   q.Get("fieldSelector"),
		ResourceVersion: q.Get("resourceVersion"),
		Bookmarks:       isTrue(q.Get("allowWatchBookmarks")),
	}
	if err := checkRevision(o.ResourceVersion); err != nil {
		return o, err
	}
	if ref.Name != "" {
		name := "metadata.name=" + ref.Name
		if o.FieldSelector != "" {
			name += "," + o.FieldSelector
		}
		o.FieldSelector = name
	}
	initial := q.Get("sendInitialEvents")
	switch match := q.Get("resourceVersionMatch"); {
	case initial != "" && match != "NotOlderThan":
		return o, invalidOption("ListOptions", "resourceVersionMatch", "FieldValueForbidden", "sendInitialEvents needs resourceVersionMatch=NotOlderThan")
	case initial == "" && match != "":
		return o, invalidOption("ListOptions", "resourceVersionMatch", "FieldValueForbidden", "a watch takes it beside sendInitialEvents alone")
	case isTrue(initial) && o.ResourceVersion != "0":
		// The newest state is not older than any revision, so the initial events may always start from it.
		o.ResourceVersion = ""
	case initial != "" && o.ResourceVersion == "":
		return o, fault.BadRequest.Errorf("sendInitialEvents=false needs a resourceVersion to start from")
	}
	return o, nil
}

// watchLife is how long a watch lives: what the client asks for, within the member's limit.
func watchLife(q url.Values, limit time.Duration, spread func(time.Duration) time.Duration) (time.Duration, error) {
	text := q.Get("timeoutSeconds")
	if text == "" || text == "0" {
		return limit/2 + spread(limit/2), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.BadRequest.Errorf("timeoutSeconds %q: want a number from 0 up", clip(text))
	}
	if n > int64(limit/time.Second) {
		return limit, nil
	}
	return time.Duration(n) * time.Second, nil
}

// writeOptions reads what a create's, update's or patch's query says.
func (x *exchange) writeOptions(sub string) (client.WriteOptions, error) {
	q := x.r.URL.Query()
	o := client.WriteOptions{Subresource: sub, FieldManager: q.Get("fieldManager")}
	if len(o.FieldManager) > 128 {
		return o, fault.BadRequest.Errorf("fieldManager is %d bytes; the limit is 128 bytes", len(o.FieldManager))
	}
	var err error
	o.DryRun, err = dryRun(q["dryRun"])
	x.audited.dry = o.DryRun
	return o, err
}

func dryRun(values []string) (bool, error) {
	for _, v := range values {
		if v != "All" {
			return false, fault.BadRequest.Errorf("dryRun %q: want All", clip(v))
		}
	}
	return len(values) > 0, nil
}

// validation is what becomes of fields that no kind has.
type validation uint8

const (
	strictFields validation = iota // refused; the default, other than in Kubernetes: nothing is dropped in silence
	warnFields
	ignoreFields
)

func fieldValidation(q url.Values) (validation, error) {
	switch v := q.Get("fieldValidation"); v {
	case "", "Strict":
		return strictFields, nil
	case "Warn":
		return warnFields, nil
	case "Ignore":
		return ignoreFields, nil
	default:
		return strictFields, fault.BadRequest.Errorf("fieldValidation %q: want Strict, Warn or Ignore", clip(v))
	}
}

// clip bounds what an error repeats of its input, in bytes.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
