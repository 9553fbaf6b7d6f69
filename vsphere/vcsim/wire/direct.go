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

// Direct makes the SOAP calls of a session (UserSession.Key) over this wire without HTTP and XML, which cause most of a call's cost. They
// are numbered, logged and broken like other calls. Login works only over HTTP.
func (w *Wire) Direct(session string) soap.RoundTripper { return &direct{w, session} }

// DirectCall is a call made without HTTP.
type DirectCall interface {
	Carrier
	// Name returns the SOAP method.
	Name() string
	// Reply stores the answer in res.
	Reply(res soap.HasFault) error
}

// direct makes the calls of a session over a wire.
type direct struct {
	wire    *Wire
	session string
}

// RoundTrip implements soap.RoundTripper. Its errors are those of an HTTP client or a SOAP decoder: a *url.Error or a soap fault.
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
		go func() { answered <- d.wire.handle(client, call.Name(), call) }()
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

// directLine stands in for the connection of an HTTP call.
type directLine struct{ hangUp context.CancelCauseFunc }

func (l *directLine) reset() {
	l.hangUp(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}
