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

// PBM makes a client of the storage policy service. It has no login of its own: the session's key goes along with each
// call, in the SOAP header. (govmomi's own constructor would leave our transport out, and so whom we trust.)
func (c *Client) PBM(ctx context.Context, s *Session) (*pbm.Client, error) {
	endpoint := *c.endpoint
	endpoint.Path = pbm.Path
	wire := soap.NewClient(&endpoint, c.cfg.Insecure)
	wire.Client.Transport = rewinding{c.transport}
	wire.UserAgent, wire.Namespace, wire.Cookie = c.cfg.UserAgent, "urn:"+pbm.Namespace, s.Vim.SessionCookie
	known := wire.Types
	wire.Types = func(name string) (reflect.Type, bool) { // SPBM leaves its own types' prefix out
		if kind, ok := known(name); ok {
			return kind, true
		}
		return known(pbm.Namespace + ":" + name)
	}
	rounds := c.rounds.on(wire)
	res, err := pbmmethods.PbmRetrieveServiceContent(ctx, rounds, &pbmtypes.PbmRetrieveServiceContent{This: pbm.ServiceInstance})
	if err != nil {
		return nil, PBMFailure(err)
	}
	return &pbm.Client{Client: wire, ServiceContent: res.Returnval, RoundTripper: rounds}, nil
}

// PBMFailure keeps it from being told as an outage of vCenter that one of its services does not answer.
func PBMFailure(err error) error {
	if err == nil || vcfault.NotAuthenticated(err) {
		return err
	}
	typed := *vcfault.Classify("", err)
	if typed.Reason == vcfault.ReasonVCenterUnreachable {
		typed.Fault = vcfault.New(vcfault.ReasonStoragePolicyUnavailable, false, "vCenter's storage policy service (vmware-sps) does not answer: see whether it runs.").Fault
	}
	return &typed
}
