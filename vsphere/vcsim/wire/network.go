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
	// CarryOut answers a request; false if vCenter is closed.
	CarryOut(w http.ResponseWriter, r *http.Request) bool
	// Refuse answers a fault in the form of the API that is called.
	Refuse(w http.ResponseWriter, r *http.Request, fault types.BaseMethodFault)
	// EndSession ends only the session of a request, and reports whether it existed.
	EndSession(r *http.Request, body []byte) bool
}

// Settings configure a network.
type Settings struct {
	Context  context.Context // ends all wires
	Endpoint Endpoint
	Direct   func(session string, req soap.HasFault) DirectCall // creates a direct call
	User     func() *url.Userinfo                               // the valid credentials
	Plain    bool                                               // no TLS
	Cert     tls.Certificate
}

// Network is all wires of one vCenter with their outages and injected faults.
type Network struct {
	set  Settings
	gate *gate

	mu     sync.Mutex // guards what follows
	calls  map[string]int
	breaks []*callBreak
}

// NewNetwork returns a network without wires.
func NewNetwork(s Settings) *Network {
	return &Network{set: s, gate: newGate(), calls: make(map[string]int)}
}

// Close cuts all connections and closes all wires.
func (n *Network) Close() (err error) {
	n.gate.set(down)
	for _, w := range n.gate.all() {
		err = errors.Join(err, w.Close())
	}
	return err
}

// Down resets all connections, including new ones. Running calls continue without an answer.
func (n *Network) Down() { n.gate.set(down) }

// Stall accepts connections but answers nothing until Up or Down.
func (n *Network) Stall() { n.gate.set(stalled) }

// Up ends an outage. Address, inventory, sessions and tasks are unchanged.
func (n *Network) Up() { n.gate.set(up) }

// Scheme returns the URL scheme: https, or http without TLS.
func (n *Network) Scheme() string {
	if n.set.Plain {
		return "http"
	}
	return "https"
}

// CACert returns the endpoint's self-signed certificate in PEM, to trust as a CA.
func (n *Network) CACert() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.set.Cert.Leaf.Raw})
}

// Thumbprint returns the certificate's SHA-1 thumbprint, AA:BB:..., for soap.Client.SetThumbprint.
func (n *Network) Thumbprint() string { return soap.ThumbprintSHA1(n.set.Cert.Leaf) }

// ThumbprintSHA256 returns the certificate's SHA-256 thumbprint.
func (n *Network) ThumbprintSHA256() string { return soap.ThumbprintSHA256(n.set.Cert.Leaf) }
