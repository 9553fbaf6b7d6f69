package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

func TestADialWithoutAcceptEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		listener := network.Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := network.DialContext(ctx, "tcp", listener.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		go func() { _ = listener.Close() }()
		if _, err := network.DialContext(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("closed while it dials: %v", err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v", err)
		}
	})
}

func TestAConnectionEndsOrIsReset(t *testing.T) {
	for reset, want := range map[bool]error{false: io.EOF, true: syscall.ECONNRESET} {
		synctest.Test(t, func(t *testing.T) {
			network := memnet.New()
			listener := network.Listen()
			go func() {
				far, err := listener.Accept()
				if err != nil {
					return
				}
				if reset {
					_ = far.(interface{ SetLinger(int) error }).SetLinger(0)
				}
				_ = far.Close()
			}()
			near, err := network.DialContext(t.Context(), "tcp", listener.Addr().String())
			must.Succeed(t, err)
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, want) {
				t.Errorf("reset %t: read %v", reset, err)
			}
			_ = near.Close()
			_ = listener.Close()
		})
	}
}
