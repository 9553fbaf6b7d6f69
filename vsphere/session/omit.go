package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Omission says which elements of an answer in XML are dropped while the answer is read. They need no memory, however many or large they are, and don't
// count for the bounds of an answer.
type Omission struct {
	// Element is the elements' name.
	Element string
	// Unless reports whether to keep an element, by its type (xsi:type, perhaps empty) and the text of its child named name. If Unless is nil, all
	// elements of that name are dropped.
	Unless func(kind, name string) bool
}

type omissions struct{}

// Omitting returns a context whose calls get answers without these elements. It is for what others determine the size of, and the server doesn't need.
func Omitting(ctx context.Context, all ...Omission) context.Context {
	return context.WithValue(ctx, omissions{}, all)
}

// WithoutValues returns a context whose calls get answers without the values of properties (PropertyChange.val, ObjectContent.propSet.val). It is for
// callers that only need to know which properties of which objects changed: a page of guest.net of 100 VMs may have 32 MB, because VMware Tools send up
// to 64 KB for each guest (open-vm-tools, GuestInfo: 2,048 addresses), and any user of a guest can make them do it.
func WithoutValues(ctx context.Context) context.Context {
	return Omitting(ctx, Omission{Element: "val"})
}

func omitted(ctx context.Context) []Omission {
	all, _ := ctx.Value(omissions{}).([]Omission)
	return all
}

// omitter reads an answer in XML without some of its elements, with all that is in them. The answer must be like vCenter's XML, which has no comments,
// no CDATA sections, and no ">" in attributes. From other XML, omitter makes a text that the decoder refuses, or a shorter one.
type omitter struct {
	io.ReadCloser
	all       []Omission
	raw, kept []byte // the buffer for reading, and the part of it that is kept
	tag       []byte // the part of a tag that was read so far
	inTag     bool
	err       error

	// fate is that of the outermost element that an Omission names, of which depth elements are open.
	fate  fate
	depth int
	// While the element is held, held is its text so far, unless and kind say whether to keep it, and naming is whether its name is being read, which is
	// in held from nameAt on.
	held   []byte
	unless func(kind, name string) bool
	kind   string
	naming bool
	nameAt int
}

// fate is what becomes of the text that is read.
type fate int

const (
	outside fate = iota // of an element that an Omission names: it is kept
	keeping
	dropping
	holding // until it is known
)

func newOmitter(body io.ReadCloser, all []Omission) *omitter {
	return &omitter{ReadCloser: body, all: all, raw: make([]byte, 32<<10)}
}

const (
	// tagMost bounds a tag, in bytes. vCenter's longest, that of the envelope, has some 400.
	tagMost = 64 << 10
	// heldMost bounds what is held, in bytes. Before its name, a ClusterRuleInfo has its key and two flags, and a ClusterGroupInfo nothing.
	heldMost = 4 << 10
)

// Read reads the next part of the answer that isn't omitted.
func (o *omitter) Read(p []byte) (int, error) {
	for len(o.kept) == 0 && o.err == nil {
		n, err := o.ReadCloser.Read(o.raw)
		o.err, o.kept = err, o.kept[:0]
		o.take(o.raw[:n])
	}
	n := copy(p, o.kept)
	o.kept = o.kept[n:]
	if len(o.kept) > 0 {
		return n, nil
	}
	return n, o.err
}

// take processes the next part of the answer.
func (o *omitter) take(in []byte) {
	for len(in) > 0 {
		mark, end := byte('<'), 0
		if o.inTag {
			mark, end = '>', 1
		}
		at := bytes.IndexByte(in, mark)
		whole := at >= 0
		if at += end; !whole {
			at = len(in)
		}
		if o.inTag {
			o.tag = append(o.tag, in[:at]...)
		} else {
			o.put(in[:at])
		}
		in = in[at:]
		switch {
		case !whole && len(o.tag) > tagMost:
			o.err = vcfault.NotVCenterAPI("an answer", errors.New("a tag does not end"))
			return
		case !whole:
		case o.inTag:
			o.inTag = false
			o.takeTag()
			o.tag = o.tag[:0]
		default:
			o.inTag = true
		}
	}
}

// takeTag processes a tag.
func (o *omitter) takeTag() {
	name, closing, empty := parseTag(o.tag)
	if o.fate == outside {
		o.begin(name, closing, empty)
		return
	}
	switch {
	case closing:
		o.depth--
	case !empty:
		o.depth++
	}
	if o.naming && o.depth == 1 {
		o.decide(o.unless(o.kind, string(bytes.TrimSpace(o.held[o.nameAt:]))))
	}
	o.put(o.tag)
	switch {
	case o.depth == 0:
		if o.fate == holding { // it has no name
			o.decide(true)
		}
		o.fate = outside
	case o.fate == holding && o.depth == 2 && string(name) == "name" && !closing && !empty:
		o.naming, o.nameAt = true, len(o.held)
	}
}

// begin processes a tag outside of the elements that Omissions name.
func (o *omitter) begin(name []byte, closing, empty bool) {
	i := slices.IndexFunc(o.all, func(x Omission) bool { return x.Element == string(name) })
	if i < 0 {
		o.put(o.tag)
		return
	}
	o.unless = o.all[i].Unless
	switch {
	case empty && o.unless != nil:
		o.put(o.tag)
	case empty, closing:
	case o.unless == nil:
		o.fate, o.depth = dropping, 1
	default:
		o.fate, o.depth, o.naming, o.kind = holding, 1, false, typeOf(o.tag)
		o.held = append(o.held[:0], o.tag...)
	}
}

// decide ends the holding of an element.
func (o *omitter) decide(keep bool) {
	o.fate, o.naming = dropping, false
	if keep {
		o.fate = keeping
		o.put(o.held)
	}
	o.held = o.held[:0]
}

// put keeps, holds or drops a text.
func (o *omitter) put(text []byte) {
	switch o.fate {
	case outside, keeping:
		o.kept = append(o.kept, text...)
	case holding:
		if o.held = append(o.held, text...); len(o.held) > heldMost { // the bounds on answers apply to it
			o.decide(true)
		}
	case dropping:
	}
}

// parseTag returns the name in a tag, and whether it is an end tag, or that of an element without content.
func parseTag(tag []byte) (name []byte, closing, empty bool) {
	in := tag[1 : len(tag)-1]
	if closing = bytes.HasPrefix(in, []byte("/")); closing {
		in = in[1:]
	}
	if empty = bytes.HasSuffix(in, []byte("/")) || bytes.HasPrefix(in, []byte("?")) || bytes.HasPrefix(in, []byte("!")); empty {
		in = bytes.TrimSuffix(in, []byte("/"))
	}
	if end := bytes.IndexAny(in, " \t\r\n"); end >= 0 {
		in = in[:end]
	}
	return in, closing, empty
}

// typeOf returns the xsi:type in a tag, without its namespace, whatever prefix it has (Go's encoder writes XMLSchema-instance:type); empty if there is none.
func typeOf(tag []byte) string {
	_, rest, _ := bytes.Cut(tag, []byte(":type="))
	if len(rest) < 2 {
		return ""
	}
	value, _, _ := bytes.Cut(rest[1:], rest[:1])
	return string(value[bytes.LastIndexByte(value, ':')+1:])
}
