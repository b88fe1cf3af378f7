// Package tokens makes and reads the bearer tokens of service accounts: JSON Web Tokens signed with ES256, for an audience, for a short
// time, and bound to what they were made for.
//
// A token names its account by uid, and may be bound to an Assignment or a Secret of the account's namespace, by uid too. It is good as long as
// its signature holds by a key that the hub still keeps, its time is not over, it is for an audience of the reader's (the hub's own is
// [Audience]), and account and bound object live with that uid: a deleted account that is made again is another one.
//
// Lives are [MinLife] to [MaxLife], an hour where none is asked for. Times are compared with [leeway] on either side.
//
// # Keys
//
// A key is a record of the hub, "~token/" and the key's id: CBOR of its public part, of the private part sealed with the record's name as
// context, and of when it was made. Any member signs with the newest. A new one is made after [rotateAfter], by whichever member signs first,
// and the old ones are kept until nothing that they signed can still be good. [Authority.Rotate] makes one at once, and may forget the old
// ones, by which every token ends.
//
// The package promises that a token never stands in an error, a log or a record. It does not say what an account may do.
package tokens
