package hook

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Errors about related objects never contain their data: Metacontroller shows a refusal as an Event, and encoding/json's
// errors quote their input.
var (
	errRelated = errors.New("related is not what Metacontroller sends: objects by kind (Secret.v1), and below the kind by namespace/name")
	errObject  = errors.New("the related object that spec.userData names is not a Secret or ConfigMap in JSON")
	errValue   = errors.New("the key that spec.userData names has a value that is not text, or, in a Secret or in binaryData, not base64")
)

// relatedData has the fields of a Secret or a ConfigMap.
type relatedData struct {
	Data       map[string]json.RawMessage `json:"data"`
	BinaryData map[string]json.RawMessage `json:"binaryData"`
}

// UserData extracts the user data of a group from the related objects of a request, and keeps nothing else of these objects. Only an
// invalid request is an error, which contains none of their data; missing user data is a fault.
func UserData(g *v1alpha1.VmGroup, related json.RawMessage) (plan.Related, error) {
	ref, wanted := plan.UserDataOf(g)
	if !wanted {
		return plan.Related{}, nil
	}
	if len(related) == 0 || string(related) == "null" {
		return plan.NoRelated(g), nil
	}
	var kinds map[string]map[string]json.RawMessage
	if json.Unmarshal(related, &kinds) != nil {
		return plan.Related{}, errRelated
	}
	objects, brought := kinds[ref.Kind+".v1"]
	object, found := objects[ref.Namespace+"/"+ref.Name]
	if !found {
		object, found = objects[ref.Name] // hook version v1
	}
	if !found {
		return ref.NotFound(brought), nil
	}
	var holds relatedData
	if json.Unmarshal(object, &holds) != nil {
		return plan.Related{}, errObject
	}
	value, inData := holds.Data[ref.Key]
	if binary, has := holds.BinaryData[ref.Key]; has && !inData && ref.Kind == "ConfigMap" {
		return take(ref, binary, true)
	}
	if inData {
		return take(ref, value, ref.Kind == "Secret")
	}
	return ref.KeyNotFound(slices.Concat(slices.Collect(maps.Keys(holds.Data)), slices.Collect(maps.Keys(holds.BinaryData)))), nil
}

// take decodes the value of the key.
func take(ref plan.UserDataRef, value json.RawMessage, base64 bool) (plan.Related, error) {
	var (
		binary []byte
		text   string
		into   any = &text
	)
	if base64 {
		into = &binary
	}
	if json.Unmarshal(value, into) != nil {
		return plan.Related{}, errValue
	}
	if !base64 {
		binary = []byte(text)
	}
	return ref.Take(binary), nil
}

// RelatedRule requests objects from Metacontroller (its RelatedResourceRule).
type RelatedRule struct {
	APIVersion string   `json:"apiVersion"`
	Resource   string   `json:"resource"`
	Namespace  string   `json:"namespace"`
	Names      []string `json:"names"`
}

// CustomizeResponse names the related objects. Metacontroller caches it for each generation of a group, so it must depend
// only on spec and metadata.
type CustomizeResponse struct {
	RelatedResources []RelatedRule `json:"relatedResources"`
}

// customizeResponse requests the Secret or ConfigMap that spec.userData names, if any. For a group that is being deleted it requests none:
// without the right to read the object, Metacontroller would call no hook, and a deletion must not depend on that. (The deletion raises the
// generation, so Metacontroller asks again.)
func customizeResponse(g *v1alpha1.VmGroup) CustomizeResponse {
	ref, wanted := plan.UserDataOf(g)
	if !wanted || g.DeletionTimestamp != nil {
		return CustomizeResponse{RelatedResources: []RelatedRule{}}
	}
	return CustomizeResponse{RelatedResources: []RelatedRule{{APIVersion: "v1", Resource: ref.Resource(), Namespace: ref.Namespace, Names: []string{ref.Name}}}}
}
