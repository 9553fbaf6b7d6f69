package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// PagesMost bounds the pages of one answer. vCenter's pages have about a hundred objects or more, and a vCenter has at most 45,000 VMs
// (VMware Configuration Maximums, vCenter Server 8.0).
const PagesMost = 5000

// Endless is the fault for an answer whose pages do not end.
func Endless(method string) *vcfault.Error {
	return vcfault.NotVCenterAPI(method, errors.New("the answer has no last page"))
}

// Retrieve makes one RetrievePropertiesEx, and reads all pages of its answer, for the properties that this vCenter supports.
func Retrieve(ctx context.Context, s *Session, specs ...types.PropertyFilterSpec) (objects []types.ObjectContent, err error) {
	err = pages(ctx, s, &types.RetrievePropertiesEx{SpecSet: specs}, func(page []types.ObjectContent) error {
		objects = append(objects, page...)
		return nil
	})
	return objects, err
}

const (
	// pageMost bounds the objects in one page; vCenter may return fewer.
	pageMost = 250
	// firstPage is how long vCenter can take for the first page of a large answer: it collects the objects before it answers.
	firstPage = 5 * time.Minute
)

// Pages is Retrieve for large answers: it calls each with each page, and keeps none. The whole answer has no time-out: a read continues while
// pages come, and fails if vCenter takes too long for one page.
func Pages(ctx context.Context, s *Session, spec types.PropertyFilterSpec, each func([]types.ObjectContent) error) error {
	return pages(ctx, s, &types.RetrievePropertiesEx{SpecSet: []types.PropertyFilterSpec{spec}, Options: types.RetrieveOptions{MaxObjects: pageMost}}, each)
}

func pages(ctx context.Context, s *Session, req *types.RetrievePropertiesEx, each func([]types.ObjectContent) error) error {
	req.This, req.SpecSet = s.Vim.ServiceContent.PropertyCollector, slices.Clone(req.SpecSet)
	for i := range req.SpecSet {
		req.SpecSet[i] = s.Supported(req.SpecSet[i])
	}
	first, vim := ctx, s.Vim
	if req.Options.MaxObjects > 0 {
		bounded, cancel := context.WithTimeout(ctx, firstPage)
		defer cancel()
		first, vim = bounded, s.Slow
	}
	res, err := methods.RetrievePropertiesEx(first, vim, req)
	if err != nil {
		return err
	}
	if res.Returnval == nil || len(res.Returnval.Objects) == 0 {
		return checkSession(ctx, s)
	}
	page, token := res.Returnval.Objects, res.Returnval.Token
	for n := 1; ; n++ {
		if err := unauthenticated(page); err != nil {
			return err
		}
		if err := each(page); err != nil || token == "" {
			return err
		}
		if n == PagesMost {
			return Endless("ContinueRetrievePropertiesEx")
		}
		more, err := methods.ContinueRetrievePropertiesEx(ctx, s.Vim, &types.ContinueRetrievePropertiesEx{This: req.This, Token: token})
		if err != nil {
			return err
		}
		page, token = more.Returnval.Objects, more.Returnval.Token
	}
}

// checkSession returns an error if a session has ended. When a session has timed out, vCenter may return an empty answer to a read instead of
// NotAuthenticated (OpenStack's oslo.vmware, vim.py: "ESX SOAP server sends an empty RetrievePropertiesExResponse"). So after an empty answer,
// the server makes another call, which vCenter refuses without a session.
func checkSession(ctx context.Context, s *Session) error {
	_, err := methods.GetCurrentTime(ctx, s.Vim)
	return err
}

// unauthenticated returns an error if properties are missing because the session has ended: vCenter may report that for
// each property (MissingProperty.fault) instead of refusing the call. Such an answer shows nothing about the objects.
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
