package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
	"codeconnect.vmworld.com/vmgroup/test/must"
)

// A client that calls once more on a connection that was idle when the server began to end gets its answer, and is told to leave. A client
// that doesn't call again keeps the server for leaveTimeout.
func TestAnIdleConnectionServesOneMoreCallAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, callsAgain := range map[string]bool{"calls again": true, "is silent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := memnet.New()
				listener := network.Listen()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })} // #nosec G112 -- a test's
				var clients leaving
				clients.watch(server)
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()
				conn, err := network.DialContext(context.Background(), "tcp", listener.Addr().String())
				must.Succeed(t, err)
				answers := bufio.NewReader(conn)
				call := func() (leave bool) {
					t.Helper()
					_, err := io.WriteString(conn, "POST /sync HTTP/1.1\r\nHost: vmgroup\r\nContent-Length: 2\r\n\r\n{}")
					must.Succeed(t, err)
					answer, err := http.ReadResponse(answers, nil)
					must.Succeed(t, err)
					text, err := io.ReadAll(answer.Body)
					if err != nil || string(text) != "answer" {
						t.Fatalf("%v: %q", err, text)
					}
					return answer.Close
				}
				if call() {
					t.Error("the server closes a connection while it serves")
				}
				synctest.Wait()
				began, ended := time.Now(), make(chan error, 1)
				go func() { ended <- shutDown(context.Background(), []*http.Server{server}, &clients) }()
				synctest.Wait()
				if callsAgain && !call() {
					t.Error("the client isn't told to leave")
				}
				must.Succeed(t, <-ended)
				if took := time.Since(began); callsAgain && took >= leaveTimeout || !callsAgain && took < leaveTimeout {
					t.Errorf("the server ended after %s", took)
				}
				if _, err := answers.ReadByte(); err == nil {
					t.Error("the connection is still open")
				}
				_ = conn.Close()
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}
