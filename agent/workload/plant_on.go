//go:build plant

package workload

// See plant_off.go. Set before anything is stepped.
var plantAdoptAnySpec bool

// PlantAdoptAnySpec switches the fault.
func PlantAdoptAnySpec(on bool) { plantAdoptAnySpec = on }
