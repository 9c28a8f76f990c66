// Prints the compact schema that crates/apiserver embeds (src/kinds/schema.txt): one block per API type, one
// line per field, with what the server's OpenAPI document says about it (required, list keys, patch
// strategy, enum) and what only its Go types say (whether an empty value is written or left out).
//
//	cd tools/controlplane && go run ./schema > ../../crates/apiserver/src/kinds/schema.txt
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// What a v1.36 server serves when nobody asks for more.
var served = []string{
	"v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1", "apps/v1",
	"authentication.k8s.io/v1", "authorization.k8s.io/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1",
	"certificates.k8s.io/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1", "networking.k8s.io/v1", "node.k8s.io/v1", "policy/v1",
	"rbac.authorization.k8s.io/v1", "resource.k8s.io/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1",
}

// What it serves only where gates and versions are switched on: kinds that a controller here looks after.
var gated = []string{
	"certificates.k8s.io/v1beta1/ClusterTrustBundle", "certificates.k8s.io/v1beta1/PodCertificateRequest",
	"internal.apiserver.k8s.io/v1alpha1/StorageVersion", "resource.k8s.io/v1alpha3/ResourcePoolStatusRequest",
	"resource.k8s.io/v1beta2/DeviceTaintRule", "scheduling.k8s.io/v1alpha2/PodGroup",
	"scheduling.k8s.io/v1alpha2/Workload", "storagemigration.k8s.io/v1beta1/StorageVersionMigration",
}

// Types that write themselves: the word for them in the schema.
var scalars = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "any",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "intstr",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "any",
}

type generator struct {
	definitions map[string]common.OpenAPIDefinition
	kinds       map[reflect.Type][]string
	queue       []reflect.Type
	seen        map[string]reflect.Type
}

func main() {
	all := runtime.NewScheme()
	must(scheme.AddToScheme(all))
	must(apiextensions.AddToScheme(all))
	must(apiregistration.AddToScheme(all))
	g := &generator{
		definitions: openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) }),
		kinds:       map[reflect.Type][]string{},
		seen:        map[string]reflect.Type{},
	}
	for _, groupVersion := range served {
		gv, err := schema.ParseGroupVersion(groupVersion)
		must(err)
		types := all.KnownTypes(gv)
		for kind, t := range types {
			if isRoot(gv, kind, t) {
				g.kinds[t] = append(g.kinds[t], groupVersion+"/"+kind)
				g.visit(t)
			}
		}
	}
	for _, word := range gated {
		parts := strings.Split(word, "/")
		kind := schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}
		t, ok := all.AllKnownTypes()[kind]
		if !ok {
			must(fmt.Errorf("there is no kind %s", word))
		}
		g.kinds[t] = append(g.kinds[t], word)
		g.visit(t)
	}
	for len(g.queue) > 0 {
		t := g.queue[0]
		g.queue = g.queue[1:]
		for _, f := range g.fields(t) {
			g.word(f.goType)
		}
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	names := make([]string, 0, len(g.seen))
	for name := range g.seen {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		g.print(out, name, g.seen[name])
	}
}

// A kind of this group (not the options and watch types that every group registers), lists left out:
// their shape is always the same.
func isRoot(gv schema.GroupVersion, kind string, t reflect.Type) bool {
	switch {
	case kind == "DeleteOptions":
		return gv.Group == ""
	case t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1":
		return false
	case strings.HasSuffix(kind, "Options"), strings.HasSuffix(kind, "List"):
		return false
	}
	_, hasMeta := t.FieldByName("TypeMeta")
	return hasMeta
}

func (g *generator) visit(t reflect.Type) string {
	name := shortName(t)
	if _, ok := g.seen[name]; !ok {
		g.seen[name] = t
		g.queue = append(g.queue, t)
	}
	return name
}

func shortName(t reflect.Type) string {
	path := t.PkgPath()
	for _, prefix := range []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/",
		"k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/kube-aggregator/pkg/apis/"} {
		path = strings.TrimPrefix(path, prefix)
	}
	return path + "." + t.Name()
}

type field struct {
	name, tag string
	goType    reflect.Type
	owner     reflect.Type
	pointer   bool
}

// The fields as encoding/json sees them, embedded structs opened.
func (g *generator) fields(t reflect.Type) []field {
	var out []field
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("json")
		name, rest, _ := strings.Cut(tag, ",")
		if f.Anonymous && (name == "" || strings.Contains(rest, "inline")) {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			out = append(out, g.fields(inner)...)
			continue
		}
		if !ok || name == "-" || !f.IsExported() {
			continue
		}
		ft, pointer := f.Type, false
		if ft.Kind() == reflect.Pointer {
			ft, pointer = ft.Elem(), true
		}
		out = append(out, field{name, rest, ft, t, pointer})
	}
	return out
}

func (g *generator) word(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if w, ok := scalars[t.PkgPath()+"."+t.Name()]; ok {
		return w
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64, reflect.Int:
		return "int64"
	case reflect.Float64:
		return "float64"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + g.word(t.Elem())
	case reflect.Map:
		return "{}" + g.word(t.Elem())
	case reflect.Struct:
		return g.visit(t)
	}
	panic("no word for " + t.String())
}

// How Go writes an empty value: p(ointer: absent or whatever was set), z(ero is left out), a(lways written, empty),
// n(ever left out, null).
func presence(f field) string {
	kind := f.goType.Kind()
	switch {
	case f.pointer && strings.Contains(f.tag, "omit"):
		return "p"
	case f.pointer:
		return "n"
	case strings.Contains(f.tag, "omitzero"):
		return "z"
	case strings.Contains(f.tag, "omitempty") && kind != reflect.Struct:
		return "z"
	}
	return "a"
}

func (g *generator) print(out *bufio.Writer, name string, t reflect.Type) {
	definition := g.definitions[modelName(t)].Schema
	sort.Strings(g.kinds[t])
	fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", name, modelName(t), strings.Join(g.kinds[t], " "), sentence(definition.Description))
	if atomic, _ := definition.Extensions.GetString("x-kubernetes-map-type"); atomic != "" {
		fmt.Fprintf(out, "\t\tstruct=%s\n", atomic)
	}
	for _, f := range g.fields(t) {
		property := definition.Properties[f.name]
		words := []string{presence(f)}
		for _, required := range definition.Required {
			if required == f.name {
				words = append(words, "required")
			}
		}
		words = append(words, extensions(property)...)
		description := property.Description
		fmt.Fprintf(out, "\t%s\t%s\t%s\t%s\n", f.name, g.word(f.goType), strings.Join(words, " "), sentence(description))
	}
}

func extensions(s spec.Schema) []string {
	var words []string
	text := func(key string) string { v, _ := s.Extensions.GetString(key); return v }
	list := func(key string) []string { v, _ := s.Extensions.GetStringSlice(key); return v }
	if kind := text("x-kubernetes-list-type"); kind == "map" {
		words = append(words, "list=map("+strings.Join(list("x-kubernetes-list-map-keys"), ",")+")")
	} else if kind != "" {
		words = append(words, "list="+kind)
	}
	if kind := text("x-kubernetes-map-type"); kind != "" {
		words = append(words, "struct="+kind)
	}
	if strategy := text("x-kubernetes-patch-strategy"); strategy != "" {
		words = append(words, "patch="+strategy+"("+text("x-kubernetes-patch-merge-key")+")")
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		words = append(words, "enum="+strings.Join(values, "|"))
	}
	if s.Format == "double" || s.Default == nil {
		return words
	}
	encoded, err := json.Marshal(s.Default)
	must(err)
	if d := string(encoded); d != "{}" && d != `""` && d != "0" && d != "false" {
		words = append(words, "default="+d)
	}
	return words
}

func modelName(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return ""
}

// The first sentence, on one line: enough for kubectl explain, a fifth of the size.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for i := 0; i+1 < len(text); i++ {
		if text[i] == '.' && text[i+1] == ' ' && !strings.HasSuffix(text[:i], "e.g") && !strings.HasSuffix(text[:i], "i.e") && i > 12 {
			return text[:i+1]
		}
	}
	return text
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
