// Package attack tries what must not work against a real hub member over real TLS: stolen device certificates, credentials that are over or
// of others, small roles that grasp for more, paths that could be read in two ways, and requests that are too large, too slow or too many.
//
// Each row of the table is refused with the code it names, is counted in a metric, and is on record in the member's audit under whoever
// tried it. A row's sender is an interface, so that other transports of the device protocol join with senders of their own. Afterwards the
// member answers as before, and its audit is whole.
//
// It does not show what needs several members; test/cluster does.
package attack
