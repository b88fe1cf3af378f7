// Command etcd is the peer of the store's bench: "etcd serve" is one member of etcd, embedded and with etcd's own defaults;
// "etcd load" drives members through etcd's own client. It is a module of its own, so that etcd is no dependency of Drover.
package main
