package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An entry's data is an envelope around the commands of one batch:
//
//	byte     version (1)
//	be64     proposer: a random number of the proposing member's current run
//	uvarint  count, then per command: uvarint proposal id, uvarint length, bytes
//
// The proposer and ids let the waiter on the proposing member, and nobody else, find its result. The number is of the
// run, not of the member, so that a restarted member does not take its former self's results for its own.
const envelopeVersion = 1

// maxBatch is the size at which a batch is closed, in bytes. A larger command travels alone.
const maxBatch = 1 << 20

type proposal struct {
	id   uint64
	data []byte
}

type envelope struct {
	proposer uint64
	ids      []uint64
	commands [][]byte
}

func encodeEnvelope(proposer uint64, batch []proposal) []byte {
	size := 1 + 8 + binary.MaxVarintLen64
	for _, p := range batch {
		size += 2*binary.MaxVarintLen64 + len(p.data)
	}
	b := make([]byte, 0, size)
	b = append(b, envelopeVersion)
	b = binary.BigEndian.AppendUint64(b, proposer)
	b = binary.AppendUvarint(b, uint64(len(batch)))
	for _, p := range batch {
		b = binary.AppendUvarint(b, p.id)
		b = binary.AppendUvarint(b, uint64(len(p.data)))
		b = append(b, p.data...)
	}
	return b
}

var errEnvelope = errors.New("malformed envelope")

// decodeEnvelope returns commands that share data's memory.
func decodeEnvelope(data []byte) (envelope, error) {
	if len(data) < 9 {
		return envelope{}, fmt.Errorf("%w: %d bytes", errEnvelope, len(data))
	}
	if data[0] != envelopeVersion {
		return envelope{}, fmt.Errorf("%w: version %d; this build knows %d", errEnvelope, data[0], envelopeVersion)
	}
	e := envelope{proposer: binary.BigEndian.Uint64(data[1:])}
	rest := data[9:]
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			rest = nil
			return ^uint64(0)
		}
		rest = rest[n:]
		return v
	}
	count := next()
	if count > uint64(len(rest)) { // each command takes at least two bytes
		return envelope{}, fmt.Errorf("%w: %d commands in %d bytes", errEnvelope, count, len(rest))
	}
	for range count {
		id, size := next(), next()
		if size > uint64(len(rest)) {
			return envelope{}, fmt.Errorf("%w: command of %d bytes in %d", errEnvelope, size, len(rest))
		}
		e.ids = append(e.ids, id)
		e.commands = append(e.commands, rest[:size:size])
		rest = rest[size:]
	}
	if len(rest) != 0 {
		return envelope{}, fmt.Errorf("%w: %d bytes after the last command", errEnvelope, len(rest))
	}
	return e, nil
}
