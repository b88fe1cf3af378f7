package reconcile

import (
	"fmt"

	"github.com/drover-fleet/drover/api"
	"github.com/drover-fleet/drover/client"
	"github.com/drover-fleet/drover/client/cache"
)

// Kind is the kind of an object, by its Go type. Another type is a defect of the caller.
func Kind(o api.Object) *api.Kind {
	k, ok := cache.KindOf(o)
	if !ok {
		panic(fmt.Sprintf("reconcile: %T is no kind of the API", o))
	}
	return k
}

// TypeMeta is what objects of a kind carry.
func TypeMeta(k *api.Kind) api.TypeMeta { return api.TypeMeta{APIVersion: k.APIVersion, Kind: k.Kind} }

// Create makes a new object.
func Create(o api.Object) client.TxItem { return item(client.TxCreate, o) }

// Update replaces an object that was copied from one that was read: its resourceVersion is the precondition.
func Update(o api.Object) client.TxItem { return item(client.TxUpdate, o) }

// Status replaces the status of an object that was copied from one that was read: its resourceVersion is the precondition.
func Status(o api.Object) client.TxItem { return item(client.TxStatus, o) }

// Delete removes the object that was read and no later one of the same name: its uid is the precondition, its state is not.
func Delete(o api.Object) client.TxItem {
	gone := Kind(o).New()
	gone.Meta().Namespace, gone.Meta().Name, gone.Meta().UID = o.Meta().Namespace, o.Meta().Name, o.Meta().UID
	return item(client.TxDelete, gone)
}

func item(v client.Verb, o api.Object) client.TxItem {
	*o.Type() = TypeMeta(Kind(o))
	return client.TxItem{Verb: v, Object: o}
}

// Owned is the reference by which an object belongs to its workload.
func Owned(by api.Object) []api.OwnerReference {
	k, yes := Kind(by), true
	return []api.OwnerReference{{
		APIVersion: k.APIVersion, Kind: k.Kind, Name: by.Meta().Name, UID: by.Meta().UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
}

// OwnedBy reports whether o belongs to exactly this owner.
func OwnedBy(o, owner api.Object) bool {
	for _, r := range o.Meta().OwnerReferences {
		if r.UID == owner.Meta().UID {
			return true
		}
	}
	return false
}
