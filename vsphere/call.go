package vsphere

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// call runs f on the current session, with an operationID. NotAuthenticated says that nothing was done, so f
// is then run once more, on a new session. Errors are *Error.
func (c *client) call(ctx context.Context, f func(context.Context, *session) error) error {
	ctx = withOperationID(ctx)
	for again := true; ; again = false {
		s, err := c.session(ctx)
		if err != nil {
			return err
		}
		if err = f(ctx, s); err == nil {
			return nil
		}
		if vcfault.NotAuthenticated(err) {
			c.lost(s, err)
			if again {
				continue
			}
		}
		typed := vcfault.Classify("", err)
		if typed.Reason == vcfault.ReasonVCenterUnreachable {
			c.lost(s, err)
		}
		return typed
	}
}

// withOperationID gives ctx an operationID, by which vCenter's logs and ours can be matched, if it has none.
func withOperationID(ctx context.Context) context.Context {
	if operationID(ctx) != "" {
		return ctx
	}
	return context.WithValue(ctx, types.ID{}, fmt.Sprintf("vmgroup-%08x", rand.Uint32()))
}

// operationID gives the id that the calls made with ctx bear, or "".
func operationID(ctx context.Context) string {
	id, _ := ctx.Value(types.ID{}).(string)
	return id
}

// sleep waits, and reports whether ctx still holds.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
