package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// undirected refuses redirects. vCenter's API sends none, and one could send the password to another
// server, or over plain http.
func undirected(res *http.Response, err error) (*http.Response, error) {
	if err != nil || res.StatusCode < http.StatusMultipleChoices || res.StatusCode >= http.StatusBadRequest {
		return res, err
	}
	_ = res.Body.Close()
	return nil, vcfault.ForRetry(vcfault.ReasonNotVCenterAPI,
		"vCenter's address redirects to another one, which the server does not follow: set VC_HOST to the address of vCenter itself.")
}

// exchange makes a call and checks the answer, so that callers can rely on a response having
// all that vCenter's API requires. govmomi returns a nil response, or empty fields, for an answer that lacks them, and its
// decoder panics if a value has another type than its field.
func exchange(ctx context.Context, next soap.RoundTripper, method string, req, res soap.HasFault) (err error) {
	if err = Contained(method, func() error { return next.RoundTrip(ctx, req, res) }); err == nil {
		if lack := lacking(res); lack != "" {
			err = vcfault.NotVCenterAPI(method, fmt.Errorf("the answer has no %s", lack))
		}
		return err
	}
	if vcfault.Known(err) {
		return err
	}
	return vcfault.NotVCenterAPI(method, err)
}

// Contained runs code of govmomi that panics at an answer it does not expect: the decoder, at a value of another type than the
// field's; the finder and the property collector's helpers, at objects without a name, a parent or a property. f must hold no
// lock.
func Contained(method string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause := fmt.Errorf("govmomi panicked with a %T", p) // its value may hold a part of the answer
			if fault, is := p.(runtime.Error); is {
				cause = fault
			}
			err = vcfault.NotVCenterAPI(method, cause)
		}
	}()
	return f()
}

// searchMost bounds the calls of one search by govmomi's finder: it makes one for each folder, and would follow a folder that
// claims to be in itself forever, with a growing path. vCenter has at most 2,500 datacenters, and few have ten.
const searchMost = 3000

// Bounded returns a client for one search.
func (s *Session) Bounded() *vim25.Client {
	c := *s.Vim
	c.RoundTripper = &search{next: s.Vim.RoundTripper, most: cmp.Or(s.searchMost, searchMost)}
	return &c
}

type search struct {
	next  soap.RoundTripper
	most  int32
	calls atomic.Int32
}

func (s *search) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	if s.calls.Add(1) > s.most {
		return vcfault.NotVCenterAPI(methodOf(req), errors.New("its folders have no end"))
	}
	return s.next.RoundTrip(ctx, req, res)
}

// missingManager names a part of vCenter that every vCenter has, but this one does not list. (ESXi hosts lack some, which
// is why they are optional in the API.)
func missingManager(c types.ServiceContent) string {
	managers := map[string]*types.ManagedObjectReference{
		"sessionManager": c.SessionManager, "viewManager": c.ViewManager, "searchIndex": c.SearchIndex, "taskManager": c.TaskManager,
		"eventManager": c.EventManager, "storageResourceManager": c.StorageResourceManager,
		"customizationSpecManager": c.CustomizationSpecManager, "rootFolder": &c.RootFolder, "propertyCollector": &c.PropertyCollector,
	}
	for _, name := range slices.Sorted(maps.Keys(managers)) {
		if ref := managers[name]; ref == nil || ref.Value == "" {
			return name
		}
	}
	return ""
}

// lacking names what a response must have but has not: the response itself, or its Returnval where the API requires
// one and something in it. Optional fields are pointers or slices in govmomi's types, and a number or a flag can be zero.
func lacking(res soap.HasFault) string {
	body := reflect.Indirect(reflect.ValueOf(res))
	if body.Kind() != reflect.Struct {
		return ""
	}
	response := body.FieldByName("Res")
	if !response.IsValid() || response.Kind() != reflect.Pointer {
		return ""
	}
	if response.IsNil() {
		return response.Type().Elem().Name()
	}
	value := response.Elem().FieldByName("Returnval")
	if value.IsValid() && value.Kind() == reflect.Struct && value.IsZero() && requires(value.Type()) {
		return "Returnval"
	}
	return ""
}

// requires reports whether the API requires something in a value of a type: an answer of optional parts alone can be empty, as
// RecommendDatastores' where there is nothing to recommend.
func requires(of reflect.Type) bool {
	for i := range of.NumField() {
		if f := of.Field(i); !f.Anonymous && !strings.Contains(f.Tag.Get("xml"), "omitempty") || f.Anonymous && f.Type.Kind() == reflect.Struct && requires(f.Type) {
			return true
		}
	}
	return false
}
