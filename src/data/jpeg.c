/* JPEG by libjpeg-turbo, with the choices that TensorFlow makes: the fast integer transform, smooth upsampling of
 * colours. Warnings of the library that mean lost pixels (an early end, a bad code) are errors; harmless ones (bytes
 * before a marker) are not. libjpeg ends a failed call with longjmp, which is caught in the functions here that call
 * it. */
#include "data/image.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/new.h"

/* libjpeg's handler, and what it is to say. */
struct handler {
    struct jpeg_error_mgr manager;
    jmp_buf failed;
    char message[JMSG_LENGTH_MAX];
    bool no_memory;
};

static void fail_call(j_common_ptr jpeg) {
    struct handler *handler = (struct handler *)jpeg->err;
    handler->no_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
    jpeg->err->format_message(jpeg, handler->message);
    longjmp(handler->failed, 1);
}

static bool loses_pixels(int code) {
    return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_JPEG_EOF || code == JWRN_MUST_RESYNC ||
           code == JWRN_ARITH_BAD_CODE || code == JWRN_NOT_SEQUENTIAL || code == JWRN_BOGUS_PROGRESSION ||
           code == JWRN_TOO_MUCH_DATA;
}

static void emit(j_common_ptr jpeg, int level) {
    if (level < 0 && loses_pixels(jpeg->err->msg_code)) fail_call(jpeg);
}

static void ignore_message(j_common_ptr jpeg) {
    (void)jpeg;
}

static struct jpeg_error_mgr *handle(struct handler *handler) {
    (void)jpeg_std_error(&handler->manager);
    handler->manager.error_exit = fail_call;
    handler->manager.emit_message = emit;
    handler->manager.output_message = ignore_message;
    return &handler->manager;
}

bool ls_jpeg_is(const uint8_t *bytes, size_t size) {
    return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

/* One decoding: all that the function that catches longjmp must find again lies in here. */
struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct handler handler;
    struct ls_image image; /* owns its pixels */
    size_t size;
};

static ls_status fail_decoder(const struct decoder *decoder, const char *name) {
    const struct jpeg_source_mgr *source = decoder->jpeg.src;
    size_t left = source && source->bytes_in_buffer <= decoder->size ? source->bytes_in_buffer : 0;
    if (decoder->handler.no_memory) return ls_fail_memory("an image", 0);
    return ls_fail(LS_DATA_LOSS, "JPEG image '%s' is damaged near offset %zu of %zu: %s", name, decoder->size - left,
                   decoder->size, decoder->handler.message);
}

/* After setjmp. */
static void read_header(struct decoder *decoder, const uint8_t *bytes) {
    jpeg_create_decompress(&decoder->jpeg);
    jpeg_mem_src(&decoder->jpeg, bytes, (unsigned long)decoder->size);
    (void)jpeg_read_header(&decoder->jpeg, TRUE);
    decoder->image.height = (int)decoder->jpeg.image_height;
    decoder->image.width = (int)decoder->jpeg.image_width;
    decoder->image.channels = decoder->jpeg.num_components == 1 ? 1 : 3;
}

/* The smallest of 1/8, 1/4, 1/2 and 1 that keeps the image at least as large as wished. The inverse transform of a
 * smaller block gives the image at 1/2, 1/4 or 1/8 from fewer coefficients, which costs less than decoding all pixels
 * and averaging them. TensorFlow has it as decode_jpeg's ratio. */
static unsigned scale_eighths(const struct ls_image *image, const struct ls_image_wish *wish) {
    if (wish->height < 1 || wish->width < 1) return 8;
    for (unsigned eighths = 1; eighths < 8; eighths *= 2)
        if ((unsigned)image->height * eighths / 8 >= (unsigned)wish->height &&
            (unsigned)image->width * eighths / 8 >= (unsigned)wish->width)
            return eighths;
    return 8;
}

/* After setjmp. False when there is no memory. */
static bool read_pixels(struct decoder *decoder, const struct ls_image_wish *wish) {
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    int channels = wish->channels ? wish->channels : decoder->image.channels;
    jpeg->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK) jpeg->out_color_space = JCS_CMYK;
    jpeg->dct_method = wish->height ? JDCT_ISLOW : JDCT_IFAST; /* the accurate one is the faster on most processors */
    jpeg->scale_num = scale_eighths(&decoder->image, wish);
    jpeg->scale_denom = 8;
    (void)jpeg_start_decompress(jpeg);
    size_t length = (size_t)jpeg->output_width * (size_t)jpeg->output_components;
    decoder->image = (struct ls_image){(int)jpeg->output_height, (int)jpeg->output_width, channels,
                                       ls_alloc_array(jpeg->output_height, length)};
    if (!decoder->image.pixels) return false;
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = decoder->image.pixels + jpeg->output_scanline * length;
        (void)jpeg_read_scanlines(jpeg, &row, 1);
    }
    (void)jpeg_finish_decompress(jpeg);
    return true;
}

/* Printing colours to screen colours or grey, in place: Adobe's files hold them inverted. output runs behind input,
 * since a pixel shrinks from four bytes to three or one; so the conversion works in place. */
static void convert_cmyk(struct ls_image *image, bool inverted) {
    size_t count = (size_t)image->height * (size_t)image->width;
    uint8_t *output = image->pixels;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *input = image->pixels + 4 * i;
        unsigned values[3], black = inverted ? input[3] : 255U - input[3];
        for (int c = 0; c < 3; c++) values[c] = (inverted ? input[c] : 255U - input[c]) * black / 255;
        if (image->channels == 1)
            *output++ = (uint8_t)((299 * values[0] + 587 * values[1] + 114 * values[2] + 500) / 1000);
        for (int c = 0; c < 3 && image->channels == 3; c++) *output++ = (uint8_t)values[c];
    }
}

ls_status ls_jpeg_probe(const char *name, const uint8_t *bytes, size_t size, struct ls_image *image) {
    struct decoder decoder = {.size = size};
    decoder.jpeg.err = handle(&decoder.handler);
    ls_status status = LS_OK;
    if (setjmp(decoder.handler.failed))
        status = fail_decoder(&decoder, name);
    else
        read_header(&decoder, bytes);
    if (!status) *image = decoder.image;
    jpeg_destroy_decompress(&decoder.jpeg);
    return status;
}

static ls_status decompress(struct decoder *decoder, const char *name, const uint8_t *bytes,
                            const struct ls_image_wish *wish) {
    if (setjmp(decoder->handler.failed)) return fail_decoder(decoder, name);
    read_header(decoder, bytes);
    return read_pixels(decoder, wish) ? LS_OK : ls_fail_memory("an image", 0);
}

ls_status ls_jpeg_decode(const char *name, const uint8_t *bytes, size_t size, const struct ls_image_wish *wish,
                         struct ls_image *image) {
    struct decoder decoder = {.size = size};
    decoder.jpeg.err = handle(&decoder.handler);
    ls_status status = decompress(&decoder, name, bytes, wish);
    if (!status && decoder.jpeg.out_color_space == JCS_CMYK)
        convert_cmyk(&decoder.image, decoder.jpeg.saw_Adobe_marker);
    jpeg_destroy_decompress(&decoder.jpeg);
    return LS_HAND_OVER(status, image, decoder.image, ls_free(decoder.image.pixels));
}

struct encoder {
    struct jpeg_compress_struct jpeg;
    struct handler handler;
    unsigned char *bytes; /* libjpeg's; of malloc, as ls_free takes it */
    unsigned long size;
};

static ls_status encode_jpeg(struct encoder *encoder, const struct ls_image *image, int quality) {
    struct jpeg_compress_struct *jpeg = &encoder->jpeg;
    if (setjmp(encoder->handler.failed))
        return ls_fail(LS_INTERNAL, "an image cannot be written as JPEG: %s", encoder->handler.message);
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, &encoder->bytes, &encoder->size);
    jpeg->image_height = (JDIMENSION)image->height;
    jpeg->image_width = (JDIMENSION)image->width;
    jpeg->input_components = image->channels;
    jpeg->in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = image->pixels + (size_t)jpeg->next_scanline * (size_t)image->width * (size_t)image->channels;
        (void)jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    return LS_OK;
}

ls_status ls_jpeg_encode(const struct ls_image *image, int quality, uint8_t **bytes, size_t *size) {
    struct encoder encoder = {0};
    encoder.jpeg.err = handle(&encoder.handler);
    ls_status status = encode_jpeg(&encoder, image, quality);
    jpeg_destroy_compress(&encoder.jpeg);
    if (!status) *size = encoder.size;
    return LS_HAND_OVER(status, bytes, encoder.bytes, ls_free(encoder.bytes));
}
