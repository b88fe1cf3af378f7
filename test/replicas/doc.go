// Package replicas tests the registry on a real group: consensus, state machine, replica and registry of three members in one
// process, over a network that can be cut. It holds no code of its own beside its tests.
package replicas
