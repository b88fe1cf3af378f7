package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
)

const jsonMedia = "application/json"

// collection is the path of a kind, in a namespace or ("") in all.
func collection(k *api.Kind, namespace string) string {
	base := "/apis/" + k.APIVersion
	if k.APIVersion == api.CoreV1 {
		base = "/api/" + k.APIVersion
	}
	if k.Namespaced && namespace != "" {
		base += "/namespaces/" + url.PathEscape(namespace)
	}
	return base + "/" + k.Plural
}

// pathOf is the path of one object. What could not be an object's path is refused here: it would name something else.
func pathOf(ref api.Ref) (string, error) {
	switch {
	case ref.Kind == nil || ref.Name == "":
		return "", fault.BadRequest.Errorf("kind or name is missing")
	case ref.Kind.Namespaced && ref.Namespace == "":
		return "", fault.BadRequest.Errorf("%s %q: namespace is missing", ref.Kind.Plural, ref.Name)
	case !ref.Kind.Namespaced && ref.Namespace != "":
		return "", fault.BadRequest.Errorf("%s have no namespace", ref.Kind.Plural)
	case ref.Name == "." || ref.Name == "..":
		return "", fault.BadRequest.Errorf("%q is no name", ref.Name)
	}
	return collection(ref.Kind, ref.Namespace) + "/" + url.PathEscape(ref.Name), nil
}

func refOf(obj api.Object) (api.Ref, error) {
	ref, ok := api.RefOf(obj)
	if !ok {
		return ref, fault.BadRequest.Errorf("object of type %T: no kind of this release", obj)
	}
	return ref, nil
}

// decodeObject reads what a hub sent. Fields that a newer hub knows and this client does not are left out.
func decodeObject(k *api.Kind, b []byte) (api.Object, error) {
	obj := k.New()
	if err := json.Unmarshal(b, obj); err != nil {
		return nil, fault.Internal.Errorf("decode %s: %w", k.Kind, err)
	}
	return obj, nil
}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, ref api.Ref, o client.GetOptions) (api.Object, error) {
	path, err := pathOf(ref)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	set(q, "resourceVersion", o.ResourceVersion)
	if o.Stale {
		q.Set("resourceVersion", "0")
	}
	b, err := c.read(ctx, call{method: http.MethodGet, path: path, query: q})
	if err != nil {
		return nil, err
	}
	return decodeObject(ref.Kind, b)
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// List implements client.Client.
func (c *Client) List(ctx context.Context, k *api.Kind, o client.ListOptions) (*client.List, error) {
	q := url.Values{}
	set(q, "labelSelector", o.LabelSelector)
	set(q, "fieldSelector", o.FieldSelector)
	set(q, "continue", o.Continue)
	set(q, "resourceVersion", o.ResourceVersion)
	switch {
	case o.Exact:
		q.Set("resourceVersionMatch", "Exact")
	case o.ResourceVersion != "" && o.ResourceVersion != "0" && o.Continue == "":
		q.Set("resourceVersionMatch", "NotOlderThan")
	}
	if o.Limit != 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if !k.Namespaced && o.Namespace != "" {
		return nil, fault.BadRequest.Errorf("%s have no namespace", k.Plural)
	}
	var doc struct {
		Metadata struct {
			ResourceVersion    string `json:"resourceVersion"`
			Continue           string `json:"continue"`
			RemainingItemCount int    `json:"remainingItemCount"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := c.readInto(ctx, call{method: http.MethodGet, path: collection(k, o.Namespace), query: q}, &doc); err != nil {
		return nil, err
	}
	l := &client.List{ResourceVersion: doc.Metadata.ResourceVersion, Continue: doc.Metadata.Continue, Remaining: doc.Metadata.RemainingItemCount}
	for _, raw := range doc.Items {
		obj, err := decodeObject(k, raw)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, obj)
	}
	return l, nil
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, obj api.Object, o client.WriteOptions) (api.Object, error) {
	ref, err := refOf(obj)
	if err != nil {
		return nil, err
	}
	if o.Subresource != "" {
		return nil, fault.MethodNotAllowed.Errorf("subresource %q cannot be created", o.Subresource)
	}
	return c.send(ctx, http.MethodPost, ref.Kind, collection(ref.Kind, ref.Namespace), obj, o)
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, obj api.Object, o client.WriteOptions) (api.Object, error) {
	ref, err := refOf(obj)
	if err != nil {
		return nil, err
	}
	path, err := pathOf(ref)
	if err != nil {
		return nil, err
	}
	if o.Subresource != "" {
		path += "/" + url.PathEscape(o.Subresource)
	}
	return c.send(ctx, http.MethodPut, ref.Kind, path, obj, o)
}

func (c *Client) send(ctx context.Context, method string, k *api.Kind, path string, obj api.Object, o client.WriteOptions) (api.Object, error) {
	body, err := api.Encode(obj)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	set(q, "fieldManager", o.FieldManager)
	if o.DryRun {
		q.Set("dryRun", "All")
	}
	b, err := c.read(ctx, call{method: method, path: path, query: q, body: body, media: jsonMedia})
	if err != nil {
		return nil, err
	}
	return decodeObject(k, b)
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, ref api.Ref, o client.DeleteOptions) error {
	path, err := pathOf(ref)
	if err != nil {
		return err
	}
	body := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	if o.Propagation != "" {
		body["propagationPolicy"] = o.Propagation
	}
	if o.DryRun {
		body["dryRun"] = []string{"All"}
	}
	pre := map[string]string{}
	if o.UID != "" {
		pre["uid"] = o.UID
	}
	if o.ResourceVersion != "" {
		pre["resourceVersion"] = o.ResourceVersion
	}
	if len(pre) > 0 {
		body["preconditions"] = pre
	}
	b, err := json.Marshal(body)
	if err != nil {
		return fault.BadRequest.Errorf("encode options: %w", err)
	}
	_, err = c.read(ctx, call{method: http.MethodDelete, path: path, body: b, media: jsonMedia})
	return err
}

// Transact implements client.Client.
func (c *Client) Transact(ctx context.Context, tx client.Transaction) ([]client.TxResult, error) {
	in := TransactionRequest{FieldManager: tx.FieldManager, Force: tx.Force, DryRun: tx.DryRun, Items: make([]TransactionItem, 0, len(tx.Items))}
	kinds := make([]*api.Kind, 0, len(tx.Items))
	for _, item := range tx.Items {
		ref, err := refOf(item.Object)
		if err != nil {
			return nil, err
		}
		doc, err := api.Encode(item.Object)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, ref.Kind)
		in.Items = append(in.Items, TransactionItem{Verb: item.Verb, Object: doc})
	}
	var err error
	if in.Preconditions, err = preconditionsOf(tx); err != nil {
		return nil, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fault.BadRequest.Errorf("encode transaction: %w", err)
	}
	var out TransactionResponse
	if err := c.readInto(ctx, call{method: http.MethodPost, path: PathTransactions, body: body, media: jsonMedia}, &out); err != nil {
		return nil, err
	}
	if len(out.Items) != len(kinds) {
		return nil, fault.Internal.Errorf("the hub answered %d items with %d results", len(kinds), len(out.Items))
	}
	results := make([]client.TxResult, 0, len(kinds))
	for i, r := range out.Items {
		obj, err := decodeObject(kinds[i], r.Object)
		if err != nil {
			return nil, err
		}
		results = append(results, client.TxResult{Object: obj, Action: r.Action})
	}
	return results, nil
}
