package api

import (
	"reflect"
	"time"
)

// filled makes an object of the kind with every field set, so that a test over all fields forgets none.
func filled(k *Kind) Object {
	o := k.New()
	fill(reflect.ValueOf(o).Elem())
	*o.Type() = TypeMeta{k.APIVersion, k.Kind}
	return o
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case Time:
		v.Set(reflect.ValueOf(TimeOf(time.Unix(1_800_000_000, 0))))
		return
	case Duration:
		v.Set(reflect.ValueOf(Duration{90 * time.Second}))
		return
	case Quantity:
		v.Set(reflect.ValueOf(BytesQuantity(64 << 20)))
		return
	case IntOrPercent:
		v.Set(reflect.ValueOf(IntOrPercent{Percent: 10, IsPercent: true}))
		return
	case RawJSON:
		v.Set(reflect.ValueOf(RawJSON(`{"f:spec":{}}`)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x1")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), e)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	default:
		panic("no way to fill a " + v.Type().String())
	}
}
