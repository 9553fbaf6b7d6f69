package wire

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"

	"github.com/vmware/govmomi/vim25/soap"
)

// Direct makes the SOAP calls of a session (UserSession.Key) by this wire without HTTP and XML, which are most of what a call
// costs. They are numbered, logged, broken and cut as others are. Log in over HTTP; Login cannot be called directly.
func (w *Wire) Direct(session string) soap.RoundTripper { return &direct{w, session} }

// DirectCall is a call that is made directly.
type DirectCall interface {
	Carrier
	// Name is the SOAP method.
	Name() string
	// Reply gives the answer to the caller.
	Reply(res soap.HasFault) error
}

// direct is a session by a wire.
type direct struct {
	wire    *Wire
	session string
}

// RoundTrip implements soap.RoundTripper. Its errors are such as an HTTP client's and a SOAP decoder's are, which callers tell
// apart: a *url.Error, or a soap fault.
func (d *direct) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	call := d.wire.network.set.Direct(d.session, req)
	client, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	line := &directLine{hangUp}
	defer d.wire.disconnect(line)
	if !d.wire.connect(line) {
		line.reset()
	}
	answered := make(chan bool, 1)
	if client.Err() == nil {
		go func() { answered <- d.wire.lead(client, call.Name(), call) }()
	}
	select {
	case ok := <-answered:
		if !ok {
			return d.failed(io.EOF)
		}
	case <-client.Done():
		return d.failed(context.Cause(client))
	}
	return call.Reply(res)
}

func (d *direct) failed(err error) error {
	address := d.wire.URL()
	address.User = nil
	return &url.Error{Op: "Post", URL: address.String(), Err: err}
}

// directLine is what a connection is for a call by HTTP.
type directLine struct{ hangUp context.CancelCauseFunc }

func (l *directLine) reset() {
	l.hangUp(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}
