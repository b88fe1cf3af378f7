package mvcc

import (
	"bytes"

	"github.com/google/btree"
	bolt "go.etcd.io/bbolt"
)

// pair is what one bucket holds under a key, or that it holds nothing there any more. Keys and values are never written to again.
type pair struct {
	key   []byte
	value []byte // not nil, unless gone
	gone  bool
}

// tree holds pairs in key order.
type tree = btree.BTreeG[pair]

func newTree() *tree {
	return btree.NewG(indexDegree, func(a, b pair) bool { return bytes.Compare(a.key, b.key) < 0 })
}

// pairOverhead is about what a pair takes in memory beside its bytes.
const pairOverhead = 80

// layer is what was written to the buckets since a checkpoint began, over what lies below it: the file, or the layer
// before and the file. It is immutable once shown.
type layer struct {
	trees [buckets]*tree // nil: nothing
	size  int            // bytes of memory, about
}

func newLayer() *layer { return &layer{} }

// clone is cheap and leaves both sides independent.
func (l *layer) clone() *layer {
	c := &layer{size: l.size}
	for b, t := range l.trees {
		if t != nil {
			c.trees[b] = t.Clone()
		}
	}
	return c
}

func (l *layer) put(b bucket, p pair) {
	if l.trees[b] == nil {
		l.trees[b] = newTree()
	}
	l.size += len(p.key) + len(p.value) + pairOverhead
	if old, ok := l.trees[b].ReplaceOrInsert(p); ok {
		l.size -= len(old.key) + len(old.value) + pairOverhead
	}
}

// forget drops what the layer has under a key of its own.
func (l *layer) forget(b bucket, key []byte) {
	if old, ok := l.trees[b].Delete(pair{key: key}); ok {
		l.size -= len(old.key) + len(old.value) + pairOverhead
	}
}

// write brings a file up to the layer, bucket by bucket in key order.
func (l *layer) write(tx *bolt.Tx) error {
	for _, b := range contentBuckets() {
		if l.trees[b] == nil {
			continue
		}
		if err := writeTree(b.of(tx), b, l.trees[b]); err != nil {
			return err
		}
	}
	return nil
}

func writeTree(to *bolt.Bucket, b bucket, t *tree) (err error) {
	if b == bucketRev || b == bucketJournal {
		to.FillPercent = 1 // these grow at their end only, so full pages stay full
	}
	t.Ascend(func(p pair) bool {
		if p.gone {
			err = to.Delete(p.key)
		} else {
			err = to.Put(p.key, p.value)
		}
		return err == nil
	})
	return err
}

// view reads one bucket: layers over the file. Values are valid as long as its transaction.
type view struct {
	base *bolt.Bucket
	over [2]*tree // the newest first; nil: nothing
}

// get is nil where there is nothing under the key.
func (v view) get(key []byte) []byte {
	for _, t := range v.over {
		if t == nil {
			continue
		}
		if p, ok := t.Get(pair{key: key}); ok {
			return p.value
		}
	}
	return v.base.Get(key)
}

// below is the view without the newest layer.
func (v view) below() view { return view{base: v.base, over: [2]*tree{v.over[1]}} }

func (v view) cursor() *cursor {
	c := &cursor{base: v.base.Cursor()}
	for i := len(v.over) - 1; i >= 0; i-- {
		if t := v.over[i]; t != nil {
			c.over = append(c.over, &treeCursor{tree: t})
		}
	}
	return c
}

func (v view) forEach(visit func(k, v []byte) error) error {
	c := v.cursor()
	for k, val := c.seek(nil); k != nil; k, val = c.next() {
		if err := visit(k, val); err != nil {
			return err
		}
	}
	return nil
}

// cursor walks a view in key order.
type cursor struct {
	base *bolt.Cursor
	k, v []byte        // where base stands; k is nil at its end
	over []*treeCursor // the oldest first
}

// seek moves to the first key that is not below the one given, and returns it with its value; k is nil at the end.
func (c *cursor) seek(key []byte) (k, v []byte) {
	c.k, c.v = c.base.Seek(key)
	for _, t := range c.over {
		t.seek(key)
	}
	return c.next()
}

// next takes the lowest key that is left. Where several hold it, the newest layer speaks.
func (c *cursor) next() (k, v []byte) {
	for {
		p := pair{key: c.k, value: c.v}
		for _, t := range c.over {
			if q, ok := t.at(); ok && (p.key == nil || bytes.Compare(q.key, p.key) <= 0) {
				p = q
			}
		}
		if p.key == nil {
			return nil, nil
		}
		if c.k != nil && bytes.Equal(c.k, p.key) {
			c.k, c.v = c.base.Next()
		}
		for _, t := range c.over {
			if q, ok := t.at(); ok && bytes.Equal(q.key, p.key) {
				t.pass()
			}
		}
		if !p.gone {
			return p.key, p.value
		}
	}
}

// Pairs are taken from a tree some at a time: few at first, since most walks are short.
const (
	firstStride = 4
	maxStride   = 256
)

// treeCursor walks a tree, which has no cursor of its own.
type treeCursor struct {
	tree   *tree
	ahead  []pair
	stride int
}

func (t *treeCursor) seek(key []byte) {
	t.stride = firstStride
	t.fill(func(visit func(pair) bool) { t.tree.AscendGreaterOrEqual(pair{key: key}, visit) })
}

// at is the pair that it stands on; ok is false at the end.
func (t *treeCursor) at() (p pair, ok bool) {
	if len(t.ahead) == 0 {
		return pair{}, false
	}
	return t.ahead[0], true
}

func (t *treeCursor) pass() {
	last := t.ahead[0]
	t.ahead = t.ahead[1:]
	if len(t.ahead) > 0 {
		return
	}
	t.stride = min(2*t.stride, maxStride)
	t.fill(func(visit func(pair) bool) {
		t.tree.AscendGreaterOrEqual(last, func(p pair) bool {
			return bytes.Equal(p.key, last.key) || visit(p)
		})
	})
}

func (t *treeCursor) fill(ascend func(visit func(pair) bool)) {
	t.ahead = make([]pair, 0, t.stride)
	ascend(func(p pair) bool {
		t.ahead = append(t.ahead, p)
		return len(t.ahead) < t.stride
	})
}
