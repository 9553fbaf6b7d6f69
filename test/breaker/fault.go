package breaker

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// writeFault answers a fault in the way of the API that was called.
func writeFault(rw http.ResponseWriter, r *http.Request, fault types.BaseMethodFault) {
	if isREST(r) {
		writeRESTFault(rw, fault)
		return
	}
	rw.Header().Set("Content-Type", "text/xml; charset=utf-8")
	rw.WriteHeader(http.StatusInternalServerError)
	var body struct {
		Fault *soap.Fault
	}
	body.Fault = &soap.Fault{Code: "ServerFaultCode"}
	body.Fault.Detail.Fault = detail{fault}
	_ = xml.NewEncoder(rw).Encode(soap.Envelope{Body: &body})
}

// detail writes a fault as vCenter does: an element named after its type, which xsi:type says once more.
type detail struct{ fault types.BaseMethodFault }

// MarshalXML implements xml.Marshaler.
func (d detail) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	kind := reflect.TypeOf(d.fault).Elem().Name()
	start.Name = xml.Name{Local: kind + "Fault"}
	start.Attr = []xml.Attr{
		{Name: xml.Name{Local: "xmlns"}, Value: "urn:" + vim25.Namespace},
		{Name: xml.Name{Local: "xmlns:xsi"}, Value: "http://www.w3.org/2001/XMLSchema-instance"},
		{Name: xml.Name{Local: "xsi:type"}, Value: kind},
	}
	return e.EncodeElement(d.fault, start)
}

// writeRESTFault answers the like of a fault in the REST API.
//
// [doc] com.vmware.vapi.std.errors: unauthenticated 401, unauthorized 403, not_found 404, invalid_argument 400,
// already_exists 400, service_unavailable 503, internal_server_error 500.
func writeRESTFault(rw http.ResponseWriter, fault types.BaseMethodFault) {
	status, kind := http.StatusInternalServerError, "internal_server_error"
	switch fault.(type) {
	case *types.NotAuthenticated, types.BaseInvalidLogin:
		status, kind = http.StatusUnauthorized, "unauthenticated"
	case types.BaseNoPermission:
		status, kind = http.StatusForbidden, "unauthorized"
	case *types.NotFound, *types.ManagedObjectNotFound:
		status, kind = http.StatusNotFound, "not_found"
	case types.BaseInvalidArgument:
		status, kind = http.StatusBadRequest, "invalid_argument"
	case *types.DuplicateName, *types.AlreadyExists:
		status, kind = http.StatusBadRequest, "already_exists"
	case types.BaseHostCommunication, types.BaseTaskInProgress, *types.Timedout:
		status, kind = http.StatusServiceUnavailable, "service_unavailable"
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]any{
		"type": "com.vmware.vapi.std.errors." + kind, "value": map[string]any{"messages": []string{}},
	})
}
