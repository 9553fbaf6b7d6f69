package memnet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

func TestARequestIsAnsweredByTheHandlerOfItsHostUntilThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Handlers
		client := &http.Client{Transport: &h}
		waits := make(chan struct{})
		stop := h.Handle("one:80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				close(waits)
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.Copy(w, r.Body)
		}))
		response, err := client.Post("http://one:80/", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "hello" || response.StatusCode != http.StatusTeapot {
			t.Errorf("%v, %d %s", err, response.StatusCode, text)
		}
		go func() {
			<-waits
			stop()
		}()
		if _, err := client.Get("http://one:80/wait"); !errors.Is(err, context.Canceled) {
			t.Errorf("the handler stopped during the request: %v", err)
		}
		if _, err := client.Get("http://one:80/"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the handler had stopped before: %v", err)
		}
	})
}
