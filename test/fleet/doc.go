// Package fleet runs all controllers and the scheduler over a real registry and store, in a bubble of fake time, against
// devices that are simulated at the place of the gateway: they report, go dark, crash and obey tombstones.
//
// It shows rules that no single loop can promise: budgets hold in the whole history of a rollout, whatever is pushed or dies;
// offline devices neither block nor lose anything; deletion reaches the end. It does not show the device protocol, consensus
// or containers; test/links, test/cluster and test/e2e do.
package fleet
