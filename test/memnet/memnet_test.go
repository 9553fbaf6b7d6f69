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
			t.Errorf("a dial without Accept: %v, want context.DeadlineExceeded", err)
		}
		go func() { _ = listener.Close() }()
		if _, err := network.DialContext(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to a listener that is closed: %v, want ECONNREFUSED", err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v, want net.ErrClosed", err)
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
				t.Errorf("reset %t: read: %v, want %v", reset, err, want)
			}
			_ = near.Close()
			_ = listener.Close()
		})
	}
}
