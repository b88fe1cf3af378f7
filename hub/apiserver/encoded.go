package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/hub/registry"
)

// encodedLister is the registry, where it can answer this list with items that are JSON already: objects as they are, of a kind that is
// not completed as it is read.
func (x *exchange) encodedLister(render *renderer, k *api.Kind) (registry.EncodedLister, bool) {
	if render.form.as != "" || k == api.KindDevice {
		return nil, false
	}
	l, ok := x.client().(registry.EncodedLister)
	return l, ok
}

func (x *exchange) listEncoded(l registry.EncodedLister, k *api.Kind, o client.ListOptions) error {
	page, err := l.ListEncoded(x.r.Context(), k, o)
	if err != nil {
		return err
	}
	b, err := joinList(k, metaOf(o, page.ResourceVersion, page.Continue, page.Remaining), page.Items)
	if err != nil {
		return err
	}
	return x.w.bytes(http.StatusOK, "application/json", b)
}

// joinList is what json.Marshal makes of an objectList, without looking through the items again.
func joinList(k *api.Kind, meta listMeta, items [][]byte) ([]byte, error) {
	const end = "]}\n"
	head, err := json.Marshal(objectList{Kind: k.Kind + "List", APIVersion: k.APIVersion, Metadata: meta, Items: []json.RawMessage{}})
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	head = bytes.TrimSuffix(head, []byte("]}"))
	size := len(head) + len(end)
	for _, item := range items {
		size += len(item) + 1
	}
	b := append(make([]byte, 0, size), head...)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, end...), nil
}

// metaOf is a page's metadata. Remaining counts keys, so it means nothing where a selector drops some of them; as in Kubernetes.
func metaOf(o client.ListOptions, revision, next string, remaining int) listMeta {
	m := listMeta{ResourceVersion: revision, Continue: next}
	if next != "" && o.LabelSelector == "" && o.FieldSelector == "" {
		n := int64(remaining)
		m.RemainingItemCount = &n
	}
	return m
}
