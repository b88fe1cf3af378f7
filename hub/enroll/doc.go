// Package enroll gives identities: the cluster's certificate authority, join tokens, enrollment requests, renewal, and the joining of
// hub members.
//
// Promises:
//
//   - The authority is made once, through consensus. Who loses the race to make it reads the winner's. Its key is sealed before it
//     is proposed.
//   - A device is its key. Enrolling again with the same key gives the same identity and costs no use of a token; that is also how
//     certificates are renewed, expired ones included for a year, since the request is signed by the key.
//   - A name belongs to one key. Another key that asks for it waits until an operator lets it replace the old one, whose key then
//     is worth nothing. A key that was denied stays denied.
//   - Every refusal has a plain reason and says when to come back.
//   - Uses of a token are counted by preconditioned writes: never more devices than it is good for.
//
// Certificates begin a day in the past, so that a board or hub whose clock is a little behind accepts them.
package enroll
