// Package grant judges whether what a workload asks of a board is within what its DevicePool allows. The rule is written once: hub
// admission, the scheduler, the controllers, the gateway and the device itself call it.
//
// It is pure and knows neither the API's objects nor the device: paths and device files are judged as text. What a path leads to on
// the board (links) is for the agent to find out, which asks again with what it found.
package grant
