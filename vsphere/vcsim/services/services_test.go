package services_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim/services"
)

func TestAServiceAnswersWhileItsGuestRunsAndItIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := services.New(func(address string) (string, bool) { return "vm-1", address == "10.0.0.1" })
		dial := func(to string) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := s.DialGuest(ctx, "tcp", to)
			if err != nil {
				return "", err
			}
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: web\r\n\r\n"); err != nil {
				return "", err
			}
			text, err := io.ReadAll(c)
			return string(text), err
		}
		if text, err := dial("10.0.0.1:80"); err != nil || !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := dial("10.0.0.2:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("where no guest is: %v", err)
		}
		s.StopService("vm-1", true)
		if _, err := dial("10.0.0.1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("stopped: %v", err)
		}
		s.StopService("vm-1", false)
		s.CutGuests(true)
		if _, err := dial("10.0.0.1:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut: %v", err)
		}
		s.CutGuests(false)
		if _, err := dial("10.0.0.1:80"); err != nil {
			t.Errorf("mended: %v", err)
		}
	})
}
