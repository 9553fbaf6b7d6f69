package session

import (
	"context"
	"reflect"

	"github.com/vmware/govmomi/pbm"
	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// PBM returns a client of the storage policy service. It needs no login: each call has the session's key
// in the SOAP header. (govmomi's own constructor would not use the session's transport, and so would not trust the configured authorities.)
func (c *Client) PBM(ctx context.Context, s *Session) (*pbm.Client, error) {
	endpoint := *c.endpoint
	endpoint.Path = pbm.Path
	wire := soap.NewClient(&endpoint, c.cfg.Insecure)
	wire.Client.Transport = rewinding{c.wired(c.transport), xmlBounds}
	wire.UserAgent, wire.Namespace, wire.Cookie = c.cfg.UserAgent, "urn:"+pbm.Namespace, s.Vim.SessionCookie
	known := wire.Types
	wire.Types = func(name string) (reflect.Type, bool) { // govmomi's simulator omits the prefix of SPBM's types, which a recorded 6.5 has
		if kind, ok := known(name); ok {
			return kind, true
		}
		return known(pbm.Namespace + ":" + name)
	}
	counted := c.metrics.on(wire)
	res, err := pbmmethods.PbmRetrieveServiceContent(ctx, counted, &pbmtypes.PbmRetrieveServiceContent{This: pbm.ServiceInstance})
	if err != nil {
		return nil, PBMFailure(err)
	}
	return &pbm.Client{Client: wire, ServiceContent: res.Returnval, RoundTripper: counted}, nil
}

// PBMFailure returns the fault for an error of the storage policy service. An outage of this service must not be reported as one of vCenter.
func PBMFailure(err error) error {
	if err == nil || vcfault.NotAuthenticated(err) {
		return err
	}
	typed := *vcfault.Classify("", err)
	if typed.Reason == vcfault.ReasonVCenterUnreachable {
		typed.Fault = vcfault.ForRetry(vcfault.ReasonStoragePolicyUnavailable, "vCenter's storage policy service (vmware-sps) does not answer: check whether it runs.").Fault
	}
	return &typed
}
