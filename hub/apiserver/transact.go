package apiserver

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/api/fault"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/remote"
)

// transact does a list of writes atomically: all or none, in one log entry. Errors name the item by its place.
func (x *exchange) transact() error {
	if media, err := x.contentType(); err != nil {
		return err
	} else if media != "application/json" {
		return fault.UnsupportedMedia.Errorf("content type %q: a transaction is application/json", clip(media))
	}
	body, err := x.readBody()
	if err != nil {
		return err
	}
	var in remote.TransactionRequest
	if err := unmarshalStrict(body, &in); err != nil {
		return fault.BadRequest.Errorf("transaction: %w", err)
	}
	tx := client.Transaction{FieldManager: in.FieldManager, Force: in.Force, DryRun: in.DryRun}
	if q, err := dryRun(x.r.URL.Query()["dryRun"]); err != nil {
		return err
	} else if q {
		tx.DryRun = true
	}
	for i, p := range in.Preconditions {
		pre, ok := p.Precondition()
		if !ok {
			return fault.BadRequest.Errorf("preconditions[%d]: there is no kind %q of %q", i, clip(p.Kind), clip(p.APIVersion))
		}
		tx.If = append(tx.If, pre)
	}
	for i, item := range in.Items {
		obj, err := x.itemObject(i, item)
		if err != nil {
			return err
		}
		tx.Items = append(tx.Items, client.TxItem{Verb: item.Verb, Object: obj})
		x.named(string(item.Verb), obj)
	}
	x.audited.forced, x.audited.dry = tx.Force, tx.DryRun
	if err := x.authorizeItems(&tx); err != nil {
		return err
	}
	if err := x.receipt(); err != nil {
		return err
	}
	results, err := x.client().Transact(x.writeContext(), tx)
	if err != nil {
		return err
	}
	shown, err := x.answers(&tx, results)
	if err != nil {
		return err
	}
	out := remote.TransactionResponse{Kind: "TransactionResult", APIVersion: api.FleetV1, Items: make([]remote.TransactionResult, 0, len(results))}
	for i, res := range results {
		doc, err := api.Encode(x.s.present(shown[i]))
		if err != nil {
			return err
		}
		out.Items = append(out.Items, remote.TransactionResult{Action: res.Action, Object: doc})
	}
	return x.w.json(http.StatusOK, out)
}

// itemObject decodes one item, always strictly; its errors say which item.
func (x *exchange) itemObject(i int, item remote.TransactionItem) (api.Object, error) {
	if limit := x.s.cfg.Limits.Object; int64(len(item.Object)) > limit {
		return nil, fault.SizeLimit(fmt.Sprintf("items[%d].object", i), int64(len(item.Object)), limit)
	}
	obj, err := api.DecodeJSON(nil, item.Object)
	var e *fault.Error
	if errors.As(err, &e) {
		named := *e
		named.Message = fmt.Sprintf("items[%d].object: %s", i, e.Message)
		return nil, &named
	}
	return obj, err
}
