package wire

import (
	"context"
	"net/http"
	"net/url"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
)

// Login logs a client in with its own transport, such as one that dials an in-memory network. It returns the errors of the calls.
func (w *Wire) Login(ctx context.Context, as *url.Userinfo, through http.RoundTripper) (*govmomi.Client, error) {
	address := w.URL()
	address.User = nil
	client := soap.NewClient(address, true)
	client.Transport = through
	vim, err := vim25.NewClient(ctx, client)
	if err != nil {
		return nil, err
	}
	c := &govmomi.Client{Client: vim, SessionManager: session.NewManager(vim)}
	return c, c.SessionManager.Login(ctx, as)
}
