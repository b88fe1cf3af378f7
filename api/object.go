package api

import "reflect"

func (o *Workload) Meta() *ObjectMeta           { return &o.Metadata }
func (o *WorkloadRevision) Meta() *ObjectMeta   { return &o.Metadata }
func (o *Assignment) Meta() *ObjectMeta         { return &o.Metadata }
func (o *Rollout) Meta() *ObjectMeta            { return &o.Metadata }
func (o *Device) Meta() *ObjectMeta             { return &o.Metadata }
func (o *JoinToken) Meta() *ObjectMeta          { return &o.Metadata }
func (o *EnrollmentRequest) Meta() *ObjectMeta  { return &o.Metadata }
func (o *Namespace) Meta() *ObjectMeta          { return &o.Metadata }
func (o *ConfigMap) Meta() *ObjectMeta          { return &o.Metadata }
func (o *Secret) Meta() *ObjectMeta             { return &o.Metadata }
func (o *Tombstone) Meta() *ObjectMeta          { return &o.Metadata }
func (o *Event) Meta() *ObjectMeta              { return &o.Metadata }
func (o *ServiceAccount) Meta() *ObjectMeta     { return &o.Metadata }
func (o *DevicePool) Meta() *ObjectMeta         { return &o.Metadata }
func (o *ResourceQuota) Meta() *ObjectMeta      { return &o.Metadata }
func (o *PriorityClass) Meta() *ObjectMeta      { return &o.Metadata }
func (o *Role) Meta() *ObjectMeta               { return &o.Metadata }
func (o *ClusterRole) Meta() *ObjectMeta        { return &o.Metadata }
func (o *RoleBinding) Meta() *ObjectMeta        { return &o.Metadata }
func (o *ClusterRoleBinding) Meta() *ObjectMeta { return &o.Metadata }

func (o *Workload) Type() *TypeMeta           { return &o.TypeMeta }
func (o *WorkloadRevision) Type() *TypeMeta   { return &o.TypeMeta }
func (o *Assignment) Type() *TypeMeta         { return &o.TypeMeta }
func (o *Rollout) Type() *TypeMeta            { return &o.TypeMeta }
func (o *Device) Type() *TypeMeta             { return &o.TypeMeta }
func (o *JoinToken) Type() *TypeMeta          { return &o.TypeMeta }
func (o *EnrollmentRequest) Type() *TypeMeta  { return &o.TypeMeta }
func (o *Namespace) Type() *TypeMeta          { return &o.TypeMeta }
func (o *ConfigMap) Type() *TypeMeta          { return &o.TypeMeta }
func (o *Secret) Type() *TypeMeta             { return &o.TypeMeta }
func (o *Tombstone) Type() *TypeMeta          { return &o.TypeMeta }
func (o *Event) Type() *TypeMeta              { return &o.TypeMeta }
func (o *ServiceAccount) Type() *TypeMeta     { return &o.TypeMeta }
func (o *DevicePool) Type() *TypeMeta         { return &o.TypeMeta }
func (o *ResourceQuota) Type() *TypeMeta      { return &o.TypeMeta }
func (o *PriorityClass) Type() *TypeMeta      { return &o.TypeMeta }
func (o *Role) Type() *TypeMeta               { return &o.TypeMeta }
func (o *ClusterRole) Type() *TypeMeta        { return &o.TypeMeta }
func (o *RoleBinding) Type() *TypeMeta        { return &o.TypeMeta }
func (o *ClusterRoleBinding) Type() *TypeMeta { return &o.TypeMeta }

func (o *Workload) DeepCopyObject() Object           { return Copy(o) }
func (o *WorkloadRevision) DeepCopyObject() Object   { return Copy(o) }
func (o *Assignment) DeepCopyObject() Object         { return Copy(o) }
func (o *Rollout) DeepCopyObject() Object            { return Copy(o) }
func (o *Device) DeepCopyObject() Object             { return Copy(o) }
func (o *JoinToken) DeepCopyObject() Object          { return Copy(o) }
func (o *EnrollmentRequest) DeepCopyObject() Object  { return Copy(o) }
func (o *Namespace) DeepCopyObject() Object          { return Copy(o) }
func (o *ConfigMap) DeepCopyObject() Object          { return Copy(o) }
func (o *Secret) DeepCopyObject() Object             { return Copy(o) }
func (o *Tombstone) DeepCopyObject() Object          { return Copy(o) }
func (o *Event) DeepCopyObject() Object              { return Copy(o) }
func (o *ServiceAccount) DeepCopyObject() Object     { return Copy(o) }
func (o *DevicePool) DeepCopyObject() Object         { return Copy(o) }
func (o *ResourceQuota) DeepCopyObject() Object      { return Copy(o) }
func (o *PriorityClass) DeepCopyObject() Object      { return Copy(o) }
func (o *Role) DeepCopyObject() Object               { return Copy(o) }
func (o *ClusterRole) DeepCopyObject() Object        { return Copy(o) }
func (o *RoleBinding) DeepCopyObject() Object        { return Copy(o) }
func (o *ClusterRoleBinding) DeepCopyObject() Object { return Copy(o) }

// Copy returns a deep copy of *p: no slice, map or pointer is shared. Unexported fields are copied as values, which is
// right for the scalars of this package.
func Copy[T any](p *T) *T {
	out := new(T)
	copyInto(reflect.ValueOf(out).Elem(), reflect.ValueOf(p).Elem())
	return out
}

func copyInto(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Pointer:
		if !src.IsNil() {
			n := reflect.New(src.Type().Elem())
			copyInto(n.Elem(), src.Elem())
			dst.Set(n)
		}
	case reflect.Slice:
		if !src.IsNil() {
			n := reflect.MakeSlice(src.Type(), src.Len(), src.Len())
			for i := range src.Len() {
				copyInto(n.Index(i), src.Index(i))
			}
			dst.Set(n)
		}
	case reflect.Map:
		if !src.IsNil() {
			n := reflect.MakeMapWithSize(src.Type(), src.Len())
			for it := src.MapRange(); it.Next(); {
				v := reflect.New(src.Type().Elem()).Elem()
				copyInto(v, it.Value())
				n.SetMapIndex(it.Key(), v)
			}
			dst.Set(n)
		}
	case reflect.Struct:
		dst.Set(src)
		for i := range src.NumField() {
			if dst.Field(i).CanSet() {
				copyInto(dst.Field(i), src.Field(i))
			}
		}
	default:
		dst.Set(src)
	}
}
