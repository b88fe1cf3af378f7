package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// bbolt checks its two roots and nothing below them. What an SD card hands back changed would be applied as if it had been proposed, and
// sent to others; so every value has a checksum (CRC-32C) of its own.

// errDamaged is a value that is not what was written.
var errDamaged = errors.New("its checksum differs: the disk has changed it")

const sumBytes = 4

// sumOf is inverted, so that zeros are never a value with its checksum.
func sumOf(data []byte) uint32 { return ^crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// seal puts the checksum before the data.
func seal(data []byte) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, sumBytes+len(data)), sumOf(data))
	return append(b, data...)
}

// unseal returns what seal was given; nil where there is nothing.
func unseal(b *bbolt.Bucket, key []byte) ([]byte, error) {
	v := b.Get(key)
	if v == nil {
		return nil, nil
	}
	if len(v) < sumBytes || sumOf(v[sumBytes:]) != binary.BigEndian.Uint32(v) {
		return nil, fmt.Errorf("%s: %w", key, errDamaged)
	}
	return v[sumBytes:], nil
}
