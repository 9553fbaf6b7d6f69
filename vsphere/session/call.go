package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// Call runs f on the current session, with an operationID. If f fails with NotAuthenticated, vCenter has done nothing, so Call
// runs f again, on a new session. Errors are *vcfault.Error.
func (c *Client) Call(ctx context.Context, f func(context.Context, *Session) error) error {
	ctx = WithOperationID(ctx)
	for again := true; ; again = false {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		if err = f(ctx, s); err == nil {
			return nil
		}
		if vcfault.NotAuthenticated(err) {
			c.Lost(s, err)
			if again {
				continue
			}
		}
		typed := vcfault.Classify("", err)
		if typed.Reason == vcfault.ReasonVCenterUnreachable {
			c.Lost(s, err)
		}
		return typed
	}
}

// WithOperationID adds an operationID to ctx, if ctx has none. It correlates vCenter's logs with the server's.
func WithOperationID(ctx context.Context) context.Context {
	if operationID(ctx) != "" {
		return ctx
	}
	return context.WithValue(ctx, types.ID{}, fmt.Sprintf("vmgroup-%08x", rand.Uint32()))
}

// operationID returns the id of the calls made with ctx, or "".
func operationID(ctx context.Context) string {
	id, _ := ctx.Value(types.ID{}).(string)
	return id
}

// Sleep waits for d or until ctx ends. It returns false if ctx has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
