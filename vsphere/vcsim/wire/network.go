package wire

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Endpoint is the vCenter behind the wires.
type Endpoint interface {
	// CarryOut has it answer a request, and reports whether it does: not, if it is closed.
	CarryOut(w http.ResponseWriter, r *http.Request) bool
	// Refuse answers a fault in the way of the API that is called.
	Refuse(w http.ResponseWriter, r *http.Request, fault types.BaseMethodFault)
	// EndSession ends the session that a request carries, and no other, and reports whether there was one.
	EndSession(r *http.Request, body []byte) bool
}

// Settings are what a network is made with.
type Settings struct {
	Context  context.Context // ends all wires
	Endpoint Endpoint
	Direct   func(session string, req soap.HasFault) DirectCall // makes a call that comes directly
	User     func() *url.Userinfo                               // that a login must name now
	Plain    bool                                               // no TLS
	Cert     tls.Certificate
}

// Network is all the wires of one vCenter, and what happens to all of them: outages, and the faults ordered for calls.
type Network struct {
	set  Settings
	gate *gate

	mu     sync.Mutex // guards what follows
	calls  map[string]int
	orders []*callOrder
}

// NewNetwork has no wire yet.
func NewNetwork(s Settings) *Network {
	return &Network{set: s, gate: newGate(), calls: make(map[string]int)}
}

// Close cuts all connections, and closes all wires.
func (n *Network) Close() (err error) {
	n.gate.set(down)
	for _, w := range n.gate.all() {
		err = errors.Join(err, w.Close())
	}
	return err
}

// Down cuts all connections and resets every new one. What is under way goes on, unheard.
func (n *Network) Down() { n.gate.set(down) }

// Stall makes a black hole: connections are accepted, and nothing is answered until Up or Down.
func (n *Network) Stall() { n.gate.set(stalled) }

// Up ends an outage. Address, inventory, sessions and tasks are as before.
func (n *Network) Up() { n.gate.set(up) }

// Scheme is that of the URL: https, or http without TLS.
func (n *Network) Scheme() string {
	if n.set.Plain {
		return "http"
	}
	return "https"
}

// CACert returns the endpoint's self-signed certificate in PEM, to be trusted as a CA.
func (n *Network) CACert() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.set.Cert.Leaf.Raw})
}

// Thumbprint returns the certificate's SHA-1 thumbprint, AA:BB:..., as soap.Client.SetThumbprint takes it.
func (n *Network) Thumbprint() string { return soap.ThumbprintSHA1(n.set.Cert.Leaf) }

// ThumbprintSHA256 returns the certificate's SHA-256 thumbprint.
func (n *Network) ThumbprintSHA256() string { return soap.ThumbprintSHA256(n.set.Cert.Leaf) }
