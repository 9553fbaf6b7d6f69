package session

import (
	"bytes"
	"context"
	"io"
)

type withoutValues struct{}

// WithoutValues returns a context whose calls get answers without the values of properties (PropertyChange.val, ObjectContent.propSet.val).
// The values are dropped while the answer is read, and need no memory, however large they are. It is for callers that only need to know
// which properties of which objects changed: a page of guest.net of 100 VMs may have 32 MB, because VMware Tools send up to 64 KB for each
// guest (open-vm-tools, GuestInfo: 2,048 addresses), and any user of a guest can make them do it.
func WithoutValues(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutValues{}, true)
}

func hasNoValues(ctx context.Context) bool { return ctx.Value(withoutValues{}) != nil }

// valueless reads an answer in XML without its elements named val, nested ones included. The answer must be like vCenter's XML, which has no
// comments, no CDATA sections, and no ">" in attributes. From other XML, valueless makes a text that the decoder refuses, or a shorter one.
type valueless struct {
	io.ReadCloser
	raw, kept []byte // the buffer for reading, and the part of it that is kept
	tag       []byte // the first bytes of a tag, until its name is known
	inTag     bool
	opening   bool // whether the reader is within the start tag of a value
	last      byte // the last byte of that tag so far
	depth     int  // the number of open values
	err       error
}

func newValueless(body io.ReadCloser) *valueless {
	return &valueless{ReadCloser: body, raw: make([]byte, 32<<10)}
}

// Read reads the next part of the answer that is not within a value.
func (v *valueless) Read(p []byte) (int, error) {
	for len(v.kept) == 0 && v.err == nil {
		n, err := v.ReadCloser.Read(v.raw)
		v.err = err
		v.take(v.raw[:n])
	}
	n := copy(p, v.kept)
	v.kept = v.kept[n:]
	if len(v.kept) > 0 {
		return n, nil
	}
	return n, v.err
}

// take processes the next part of the answer.
func (v *valueless) take(in []byte) {
	v.kept = v.kept[:0]
	for len(in) > 0 {
		switch {
		case v.opening: // the tag ends, perhaps without a content
			end := bytes.IndexByte(in, '>')
			if end < 0 {
				v.last, in = in[len(in)-1], nil
				break
			}
			if end > 0 {
				v.last = in[end-1]
			}
			if v.last != '/' {
				v.depth++
			}
			v.opening, in = false, in[end+1:]
		case v.inTag:
			in = in[v.know(in):]
		default:
			begin := bytes.IndexByte(in, '<')
			if begin < 0 {
				begin = len(in)
			}
			v.keep(in[:begin])
			if in = in[begin:]; len(in) > 0 {
				v.inTag, v.tag, in = true, append(v.tag[:0], '<'), in[1:]
			}
		}
	}
}

const (
	startOfValue = "<val"
	endOfValue   = "</val"
)

// know finds out whether a tag is that of a value, and returns the number of bytes that it has processed.
func (v *valueless) know(in []byte) (took int) {
	for took < len(in) {
		c := in[took]
		named := bytes.IndexByte([]byte(" \t\r\n/>"), c) >= 0 && len(v.tag) > 1
		switch {
		case named && string(v.tag) == startOfValue:
			v.inTag, v.opening, v.last = false, true, 0
			return took
		case named && string(v.tag) == endOfValue:
			if c != '>' {
				return took + 1 // a space
			}
			v.depth, v.inTag = max(v.depth-1, 0), false
			return took + 1
		case len(v.tag) > len(endOfValue) || named && c != '/':
			v.keep(v.tag) // the rest of the tag is processed like a text: it has no "<"
			v.inTag = false
			return took
		}
		v.tag = append(v.tag, c)
		took++
	}
	return took
}

func (v *valueless) keep(text []byte) {
	if v.depth == 0 {
		v.kept = append(v.kept, text...)
	}
}
