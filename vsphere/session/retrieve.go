package session

import (
	"context"
	"errors"
	"slices"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// PagesMost bounds the pages of one answer. vCenter's are of about a hundred objects or more, and it has 45,000 VMs at most
// (VMware Configuration Maximums, vCenter Server 8.0).
const PagesMost = 5000

// Endless is the fault for an answer whose pages do not end.
func Endless(method string) *vcfault.Error {
	return vcfault.NotVCenterAPI(method, errors.New("the answer has no last page"))
}

// Retrieve makes one RetrievePropertiesEx, and reads all pages of its answer, for the properties that this vCenter supports.
func Retrieve(ctx context.Context, s *Session, specs ...types.PropertyFilterSpec) ([]types.ObjectContent, error) {
	pc := s.Vim.ServiceContent.PropertyCollector
	specs = slices.Clone(specs)
	for i := range specs {
		specs[i] = s.Supported(specs[i])
	}
	res, err := methods.RetrievePropertiesEx(ctx, s.Vim, &types.RetrievePropertiesEx{
		This: pc, SpecSet: specs})
	if err != nil || res.Returnval == nil {
		return nil, err
	}
	objects, token := res.Returnval.Objects, res.Returnval.Token
	for pages := 1; token != ""; pages++ {
		if pages == PagesMost {
			return nil, Endless("ContinueRetrievePropertiesEx")
		}
		more, err := methods.ContinueRetrievePropertiesEx(ctx, s.Vim, &types.ContinueRetrievePropertiesEx{This: pc, Token: token})
		if err != nil {
			return nil, err
		}
		objects, token = append(objects, more.Returnval.Objects...), more.Returnval.Token
	}
	return objects, unauthenticated(objects)
}

// unauthenticated returns an error if properties are missing because the session has ended: vCenter may report that for
// each property (MissingProperty.fault) instead of refusing the call. It says nothing about the objects.
func unauthenticated(objects []types.ObjectContent) error {
	for _, o := range objects {
		for _, m := range o.MissingSet {
			if err := vcfault.SessionEnded(m.Fault.Fault); err != nil {
				return err
			}
		}
	}
	return nil
}
